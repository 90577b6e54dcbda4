/* A row in memory and its stored form.
 *
 * Format of a stored row, little-endian, in the `rec` column of a partition's file:
 *    0  u32  0x31725742 ("BWr1")
 *    4  u32  flags: 1 payload, 2 text, 4 subject, 8 source, 16 model are there;
 *            32 the id is a UUID; 64 only id and dense vectors were kept
 *    8  u64  id hi      16 u64  id lo
 *   24  u64  version    32 i64  expires_at, Unix ns, 0 = never
 *   40  u32  tokens of the text      44 u32  vectors
 *   48  u32  lengths of payload, text, subject, source, model
 *   68  per vector: u32 place in the collection's list, u32 form, u32 n
 *       then the bytes of payload, text, subject, source, model
 *       then per vector by its form: 0 dense: n f32; 1 sparse: n u32 indices, n f32
 *       values; 2: n f16; 3: n bf16; 4: one f32 scale, n i8
 *  end  u64  SipHash-2-4 of all before (a check against damage, no secret)
 * The reader checks the hash, then that the lengths fill the record exactly. */
#ifndef BW_STORE_REC_H
#define BW_STORE_REC_H
#include "../base/base.h"
#include <bailiwick/engine.h>
#include <stdatomic.h>

/* One row's dense vector, borrowed. Its elements are those of the spec's dtype, in any
 * alignment; raw: f32 as a caller gave them, neither normalised nor encoded yet. */
typedef struct bw_dense {
    const void *data; /* NULL: the row has none */
    float scale;      /* int8: value = scale × code */
    bool raw;
} bw_dense;

typedef struct bw_rec_sparse {
    uint32_t vec, n;
    const uint32_t *indices;
    const float *values;
} bw_rec_sparse;

/* One block of memory; immutable once published but for the count. */
typedef struct bw_rec {
    atomic_uint refs;
    bool skeleton; /* a dead row of a graph: id and dense vectors only */
    uint32_t ntokens, nsparse;
    int64_t key; /* row key in the file; never used again */
    uint64_t version;
    bw_point_id id;
    bw_str payload, text;
    bw_point_facts facts;
    const bw_rec_sparse *sparse;
    size_t bytes;
} bw_rec;

/* What a new row is made of; everything is borrowed and copied. */
typedef struct bw_rec_in {
    bw_point_id id;
    bw_str payload, text;
    bw_point_facts facts;
    uint32_t ntokens;
    const bw_rec_sparse *sparse;
    uint32_t nsparse;
} bw_rec_in;

BW_MUST_USE bw_status bw_rec_new(bw_ctx *ctx, const bw_rec_in *in, bw_rec **out);
void bw_rec_acquire(bw_rec *rec);
void bw_rec_release(bw_rec *rec); /* NULL is accepted */
const bw_rec_sparse *bw_rec_sparse_get(const bw_rec *rec,
                                       uint32_t vec); /* NULL: none */

/* dense: nvec, none of them raw. skeleton: see above. */
void bw_rec_encode(const bw_rec *rec, const bw_vector_spec *specs, uint32_t nvec,
                   const bw_dense *dense, bool skeleton, bw_buf *out);
/* dense: nvec entries, filled with pointers into bytes. */
BW_MUST_USE bw_status bw_rec_decode(bw_ctx *ctx, bw_str bytes,
                                    const bw_vector_spec *specs, uint32_t nvec,
                                    int64_t key, bw_rec **out, bw_dense *dense);
#endif
