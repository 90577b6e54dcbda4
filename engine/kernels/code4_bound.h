/* The float steps of the test, written once for every ISA: code4_*.c define a vector
 * type `vf` and its operations v_*, then include this. One text keeps the bits equal.
 *
 * a is ⟨q̂,x̂⟩, norm ‖x̂‖ and lost ‖x − x̂‖, both rounded up. Each bound has a first form
 * without division or root, that most rows fail, and a tight one for the rest. The
 * sums that show that rounding is covered are in engine/index/codes_query.c. v_max
 * gives its second argument when one is NaN. */
#define BOUND static inline __attribute__((always_inline)) vf

/* ⟨q,x⟩ ≤ a + ‖q − q̂‖·‖x̂‖ + ‖q‖·lost. */
BOUND dot_first(const bw_code4_query *q, vf a, vf norm, vf lost)
{
    return v_fma(v_set(q->flat), lost, v_fma(v_set(q->per_norm), norm, a));
}

/* The length of the query's part orthogonal to x̂, from above: what the code lost is
 * orthogonal to x̂ (least squares), so only this part meets it. */
BOUND side_of(const bw_code4_query *q, vf a, vf norm)
{
    const vf along = v_div(v_abs(a), v_max(norm, v_set(0x1p-100f))); /* 0/0 of zero rows */
    const vf sure = v_sub(along, v_set(q->qlost * (1 + 0x1p-18f)));
    const vf t = v_max(sure, v_set(0.0f));
    const vf t2 = v_mul(v_mul(t, t), v_set(1 - 0x1p-19f));
    return v_sqrt(v_max(v_sub(v_set(q->q2 * (1 + 0x1p-19f)), t2), v_set(0.0f)));
}

BOUND dot_upper(const bw_code4_query *q, vf a, vf norm, vf lost)
{
    const vf side = v_fma(side_of(q, a, norm), v_set(1 + 0x1p-19f), v_set(q->per_lost));
    return v_fma(side, lost, v_fma(v_set(q->per_norm), norm, a));
}
#define dot_bar(q) ((q)->worst)

/* ‖q̂ − x̂‖ ≤ reach + lost, squared and turned round: grows with the key. */
BOUND euclid_first(const bw_code4_query *q, vf a, vf norm, vf lost)
{
    const vf r = v_add(v_set(q->reach), lost);
    const vf r2 = v_mul(v_mul(r, r), v_set(1 + 0x1p-19f));
    const vf n2 = v_mul(v_mul(norm, norm), v_set(1 - 0x1p-19f));
    return v_fma(v_set(2.0f), a, v_sub(r2, n2));
}
#define euclid_bar(q) ((q)->low2)

/* ‖q − x‖² ≥ ‖q̂ − x̂‖² + lost² − 2·‖q − q̂‖·‖q̂ − x̂‖ − 2·side·lost. A row that cannot
 * be bounded (lost = inf) meets inf − inf, and v_max makes that a distance of 0. */
BOUND euclid_upper(const bw_code4_query *q, vf a, vf norm, vf lost)
{
    const vf n2 = v_mul(norm, norm), l2 = v_mul(lost, lost);
    const vf slack = v_mul(v_add(v_set(q->q2), v_add(n2, l2)), v_set(0x1p-18f));
    const vf d2 = v_fma(v_set(-2.0f), a, v_add(v_set(q->low2), n2));
    const vf d = v_sqrt(v_max(v_add(d2, slack), v_set(0.0f)));
    const vf off = v_fma(v_set(q->qlost), d, v_mul(side_of(q, a, norm), lost));
    const vf low = v_sub(v_fma(v_set(-2.0f), off, v_add(d2, l2)), slack);
    const vf root = v_sqrt(v_max(low, v_set(0.0f)));
    return v_fma(root, v_set(-q->shrink), v_set(0x1p-60f));
}
