/* The GPU module's speed, beside its limits, and its answers beside the CPU's.
 *
 *   gpu_bench [option value] …     then commands, a line each, on standard input
 *     npy FILE | n ROWS, dim D     rows: a file, or drawn by seed (default 1,000,000 × 384)
 *     dtype f32|f16|bf16|i8   metric cosine|dot|euclid   k 10   seed 1
 *     segments 100   percents 100,50,10,1   pool 8192 (queries)   check 8 (with exact answers)
 *     folder DIR     where bailiwick_cuda.so is; else where the cell looks
 *     device 0   workspace-mb 512   pinned-mb 32
 *     gbps X   tflops X            the card's measured copy and product rates: gives shares
 *
 *   run BATCH MODE PERCENT MS (modes: segments bits mixed)   one line of JSON (below)
 *   exact MODE PERCENT      the CPU's row numbers for the first `check` queries
 *   rows PATH FROM COUNT    writes rows decoded to f32: for a peer on the same card
 *   queries PATH            the pool, f32
 *   mask PATH PERCENT       a byte a row, 1 = permitted in `bits`
 *
 * A run answers batches for MS/2 one at a time (p50, p99 of launch to answer) and for MS/2
 * with two in flight (queries a second). Answers without BW_GPU_COVERED are asked again,
 * wider, inside the time. `differ` counts sampled queries whose keys or ids are not the
 * CPU's: any ends the program with 1. Without a device: a line that says which part is
 * missing, and 77.
 *
 * Host memory: the rows in stored precision. One thread. */
#include "engine/index/gpu_load.h"
#include "gpu_set.h"

#include <errno.h>
#include <time.h>

enum {
    SAMPLES_MAX = 1 << 16,
    TRIES_MAX = 6,
    DEVICE_WAIT_S = 60, /* the emulated device needs some */
    LINE_MAX_BYTES = 4096,
    SKIPPED = 77
};

typedef struct slot { /* one batch in flight */
    bw_gpu_ticket *ticket;
    uint32_t first, nq, nitems; /* pool numbers from `first` on, round the pool's end */
    uint32_t *numbers;          /* nq: which, of the pool */
    float *queries;             /* nq × dim */
    bw_gpu_item *items;
    bw_gpu_read *reads;
    uint32_t *segments;         /* nitems: which */
    uint32_t groups, hits, nreads;
} slot;

typedef struct bench {
    gpu_set set;
    const bw_gpu_module *m;
    bw_gpu *gpu;
    bw_gpu_segment **segments;
    bw_gpu_bits **bits; /* percents × segments */
    slot slots[BW_GPU_INFLIGHT_MAX], again;
    set_mode mode;
    uint32_t p; /* of set.percents */
    uint32_t batch;
    double gbps, tflops;
    uint64_t answered, checked, differ, retried, beyond;
    char card[128];
    uint32_t driver;
} bench;

typedef struct options {
    const char *npy, *folder;
    bw_gpu_options gpu;
} options;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what, const char *more)
{
    printf("{\"failed\": \"%s: %s\"}\n", what, more);
    fflush(stdout);
    exit(1);
}

static void must(const bench *b, bw_gpu_status s, const char *what)
{
    if (s != BW_GPU_OK)
        die(what, s == BW_GPU_LOST || s == BW_GPU_INVALID ? b->m->last_error(b->gpu) : bw_gpu_status_text(s));
}

static void *need(void *p)
{
    if (!p)
        die("memory", "none left");
    return p;
}

/* ---- the device ---- */

static int missing(const char *part, const char *text)
{
    printf("{\"missing\": \"%s\", \"not_run\": \"%s\"}\n", part, text);
    return SKIPPED;
}

#ifdef BW_GPU_EMULATED
bw_gpu_module_fn bw_gpu_emulated_get; /* the module's source on the CPU: tests/support/emulated */
#endif

/* 0, or the exit status. */
static int device_open(bench *b, const options *o)
{
    static bw_gpu_probe probe;
    char text[BW_GPU_TEXT_MAX];
    uint32_t reason;
#ifdef BW_GPU_EMULATED
    bw_gpu_load_use(bw_gpu_emulated_get(BW_GPU_ABI));
#endif
    b->m = o->folder ? bw_gpu_load_from(o->folder, &reason, text) : bw_gpu_load(&reason, text);
    if (!b->m)
        return missing("module", text);
    b->m->probe(&probe);
    if (probe.reason != BW_GPU_READY)
        return missing(probe.reason <= BW_GPU_OLD_DRIVER ? "driver" : "device", probe.text);
    if (b->m->open(&o->gpu, &b->gpu, &reason, text) != BW_GPU_OK)
        return missing("device", text);
    for (uint32_t i = 0; i < probe.ndevices && i < BW_GPU_DEVICES_MAX; i++)
        if (probe.devices[i].index == o->gpu.device)
            (void)snprintf(b->card, sizeof b->card, "%s", probe.devices[i].name);
    b->driver = probe.driver;
    return 0;
}

static void segment_send(bench *b, uint32_t g)
{
    const gpu_set *s = &b->set;
    const uint32_t n = set_segment_rows(s, g);
    const size_t wide = s->dim * bw_dtype_size(s->dtype), first = set_segment_row0(s, g);
    const bw_gpu_shape shape = {(uint32_t)s->dtype, s->dim, (uint32_t)s->metric,
                                (n + BW_GPU_GROUP - 1) / BW_GPU_GROUP * BW_GPU_GROUP};
    uint32_t part = (uint32_t)(BW_GPU_UPLOAD_MAX / (wide + sizeof(float)));
    part = part < BW_GPU_UPLOAD_ROWS_MAX ? part : BW_GPU_UPLOAD_ROWS_MAX;
    must(b, b->m->segment_new(b->gpu, &shape, &b->segments[g]), "segment");
    for (uint32_t at = 0; at < n; at += part) {
        const uint32_t many = n - at < part ? n - at : part;
        bw_gpu_status st;
        do
            st = b->m->segment_write(b->gpu, b->segments[g], at, set_row_at(s, first + at),
                                     s->scales ? s->scales + first + at : NULL, many);
        while (st == BW_GPU_AGAIN);
        must(b, st, "upload");
    }
    uint64_t *words = need(bw_calloc(bw_bitmap_words(n) + 1, sizeof *words));
    for (uint32_t p = 0; p < s->npercents; p++) {
        bw_gpu_status st;
        memset(words, 0, bw_bitmap_words(n) * sizeof *words);
        for (uint32_t i = 0; i < n; i++)
            words[i / 64] |= (uint64_t)set_bit(s, s->percents[p], first + i) << (i % 64);
        do
            st = b->m->bits_new(b->gpu, words, n, &b->bits[p * s->nsegments + g]);
        while (st == BW_GPU_AGAIN);
        must(b, st, "bits");
    }
    bw_free(words);
}

static void send_all(bench *b)
{
    const gpu_set *s = &b->set;
    b->segments = need(bw_calloc(s->nsegments, sizeof(void *)));
    b->bits = need(bw_calloc((size_t)s->nsegments * s->npercents, sizeof(void *)));
    for (uint32_t g = 0; g < s->nsegments; g++)
        if (set_segment_rows(s, g) > 0)
            segment_send(b, g);
    slot *all[BW_GPU_INFLIGHT_MAX + 1] = {&b->slots[0], &b->slots[1], &b->again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        slot *t = all[i];
        t->numbers = need(bw_calloc(BW_GPU_BATCH_MAX, sizeof *t->numbers));
        t->queries = need(bw_alloc_vectors((size_t)BW_GPU_BATCH_MAX * s->dim * sizeof(float)));
        t->items = need(bw_calloc(s->nsegments, sizeof *t->items));
        t->segments = need(bw_calloc(s->nsegments, sizeof *t->segments));
        t->reads = need(bw_calloc((size_t)BW_GPU_BATCH_MAX * s->nsegments, sizeof *t->reads));
    }
}

static void slot_clear(slot *t)
{
    bw_free(t->numbers);
    bw_free_vectors(t->queries);
    bw_free(t->items);
    bw_free(t->segments);
    bw_free(t->reads);
}

static void bench_close(bench *b)
{
    b->m->close(b->gpu); /* with its segments and bits */
    bw_free(b->segments);
    bw_free(b->bits);
    for (size_t i = 0; i < BW_GPU_INFLIGHT_MAX; i++)
        slot_clear(&b->slots[i]);
    slot_clear(&b->again);
    set_clear(&b->set);
}

/* ---- batches ---- */

/* Items and reads for the slot's numbers. */
static void slot_reads(const bench *b, slot *t)
{
    const gpu_set *s = &b->set;
    t->nitems = t->nreads = 0;
    for (uint32_t g = 0; g < s->nsegments; g++) {
        const uint32_t read0 = t->nreads, rows = set_segment_rows(s, g);
        const bw_gpu_bits *bits = b->mode == SET_BITS ? b->bits[b->p * s->nsegments + g] : NULL;
        for (uint32_t q = 0; q < t->nq && rows > 0; q++)
            if (set_reads(s, b->mode, s->percents[b->p], t->numbers[q], g))
                t->reads[t->nreads++] = (bw_gpu_read){q, 0, bits};
        if (t->nreads == read0)
            continue;
        t->segments[t->nitems] = g;
        t->items[t->nitems++] = (bw_gpu_item){b->segments[g], 0, rows, read0, t->nreads - read0};
    }
}

/* What changes from batch to batch: the queries; in `mixed` also who reads what. */
static void slot_fill(const bench *b, slot *t, uint32_t first)
{
    const bool same = t->nq == b->batch && t->nitems > 0 && b->mode != SET_MIXED;
    t->first = first;
    t->nq = b->batch;
    for (uint32_t q = 0; q < t->nq; q++) {
        t->numbers[q] = (first + q) % b->set.pool;
        memcpy(t->queries + (size_t)q * b->set.dim, b->set.queries + (size_t)t->numbers[q] * b->set.dim,
               b->set.dim * sizeof(float));
    }
    if (!same)
        slot_reads(b, t);
    t->groups = t->hits = 0;
}

static bw_gpu_status slot_launch(const bench *b, slot *t)
{
    const bw_gpu_batch batch = {t->queries, t->nq, b->set.k, t->groups, t->hits, t->nitems, t->nreads,
                                t->items, t->reads};
    return b->m->launch(b->gpu, &batch, &t->ticket);
}

static void check(bench *b, const slot *t, uint32_t q, const bw_gpu_answer *a, const bw_gpu_hit *hits)
{
    const gpu_set *s = &b->set;
    const uint32_t number = t->numbers[q];
    b->answered++;
    if (number >= s->check)
        return;
    const size_t list = set_exact_at(s, number, b->mode, b->p);
    const set_hit *want = s->exact + list * s->k;
    set_hit *got = need(bw_calloc(a->n + 1u, sizeof *got));
    for (uint32_t i = 0; i < a->n; i++)
        got[i] = (set_hit){hits[i].key,
                           (uint32_t)set_segment_row0(s, t->segments[hits[i].item]) + hits[i].row};
    qsort(got, a->n, sizeof *got, set_hit_cmp);
    bool same = a->n >= s->exact_n[list];
    for (uint32_t i = 0; same && i < s->exact_n[list]; i++)
        same = memcmp(&got[i], &want[i], sizeof *got) == 0;
    b->checked++;
    b->differ += !same;
    bw_free(got);
}

/* Waits for a slot; asks again what was not covered, until all is. Returns the device's ms. */
static double slot_finish(bench *b, slot *t)
{
    const gpu_set *s = &b->set;
    double ms = 0;
    for (int tries = 0;; tries++) {
        bw_gpu_result r;
        slot *next = &b->again;
        uint32_t open = 0, groups = t->groups, hits = t->hits;
        must(b, b->m->wait(b->gpu, t->ticket, DEVICE_WAIT_S * (uint64_t)1000000000, &r), "batch");
        ms += (double)r.device_ms;
        for (uint32_t q = 0; q < t->nq; q++) {
            const bw_gpu_answer *a = &r.answers[q];
            if (a->flags & BW_GPU_COVERED) {
                check(b, t, q, a, r.hits + (size_t)q * r.hits_max);
            } else if (a->flags & BW_GPU_BEYOND) {
                b->beyond++; /* the CPU's; drawn queries never are */
            } else {
                groups = a->groups > groups ? a->groups : groups;
                hits = a->ties > hits ? a->ties : hits;
                next->numbers[open] = t->numbers[q]; /* q ≥ open: also when t is next */
                if (next != t || q != open)
                    memcpy(next->queries + (size_t)open * s->dim, t->queries + (size_t)q * s->dim,
                           s->dim * sizeof(float));
                open++;
            }
        }
        b->m->release(b->gpu, t->ticket);
        t->ticket = NULL;
        if (open == 0)
            return ms;
        if (tries == TRIES_MAX)
            die("batch", "answers stay uncovered");
        b->retried += open;
        next->nq = open;
        next->groups = groups;
        next->hits = hits > s->k ? hits : 0;
        slot_reads(b, next);
        must(b, slot_launch(b, next), "again");
        t = next;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One at a time, in ms; fills both arrays and returns how many. */
static size_t run_alone(bench *b, double seconds, double *walls, double *devices)
{
    const double start = now_s();
    size_t n = 0;
    uint32_t first = 0;
    do {
        slot_fill(b, &b->slots[0], first);
        first = (first + b->batch) % b->set.pool;
        const double t0 = now_s();
        must(b, slot_launch(b, &b->slots[0]), "launch");
        devices[n] = slot_finish(b, &b->slots[0]);
        walls[n++] = (now_s() - t0) * 1e3;
    } while (n < SAMPLES_MAX && (n < 3 || now_s() - start < seconds));
    return n;
}

/* Two in flight; a retry waits for both. Queries a second. */
static double run_pairs(bench *b, double seconds)
{
    const double start = now_s();
    uint64_t asked = 0;
    uint32_t first = 0, turn = 0;
    do {
        slot *t = &b->slots[turn];
        if (t->ticket)
            (void)slot_finish(b, t);
        slot_fill(b, t, first);
        first = (first + b->batch) % b->set.pool;
        must(b, slot_launch(b, t), "launch");
        asked += b->batch;
        turn = 1 - turn;
    } while (asked < 4 * b->batch || now_s() - start < seconds);
    for (int i = 0; i < 2; i++, turn = 1 - turn)
        if (b->slots[turn].ticket)
            (void)slot_finish(b, &b->slots[turn]);
    return (double)asked / (now_s() - start);
}

/* ---- what a run costs at the least ---- */

static set_cost cost_of(const bench *b, const slot *t)
{
    const gpu_set *s = &b->set;
    set_cost c = {0, 0, 0};
    for (uint32_t i = 0; i < t->nitems; i++) {
        double rows = t->items[i].rows;
        if (b->mode == SET_BITS) { /* groups without a permitted row need not be read */
            const size_t first = set_segment_row0(s, t->segments[i]);
            uint32_t groups = 0;
            for (uint32_t g = 0; g < t->items[i].rows; g += BW_GPU_GROUP) {
                bool any = false;
                for (uint32_t r = g; !any && r < g + BW_GPU_GROUP && r < t->items[i].rows; r++)
                    any = set_bit(s, s->percents[b->p], first + r);
                groups += any;
            }
            rows = (double)groups * BW_GPU_GROUP;
            rows = rows < t->items[i].rows ? rows : t->items[i].rows;
        }
        set_cost_add(&c, (uint32_t)s->dtype, s->dim, rows, t->items[i].nreads);
    }
    return c;
}

static void run(bench *b, double ms)
{
    static double walls[SAMPLES_MAX], devices[SAMPLES_MAX];
    static const char *const dtypes[] = {"f32", "f16", "bf16", "i8"};
    b->answered = b->checked = b->differ = b->retried = b->beyond = 0;
    for (size_t i = 0; i < BW_GPU_INFLIGHT_MAX; i++)
        b->slots[i].nitems = 0;
    slot_fill(b, &b->slots[0], 0); /* one to warm up, not timed */
    const bw_gpu_status st = slot_launch(b, &b->slots[0]);
    if (st == BW_GPU_NOMEM) { /* the slabs are too small for it: an option's matter */
        printf("{\"not_run\": \"%s\", \"batch\": %u}\n", b->m->last_error(b->gpu), b->batch);
        return;
    }
    must(b, st, "launch");
    (void)slot_finish(b, &b->slots[0]);
    const size_t n = run_alone(b, ms * 0.0005, walls, devices);
    const double qps = run_pairs(b, ms * 0.0005);
    const set_cost c = cost_of(b, &b->slots[0]);
    qsort(walls, n, sizeof *walls, by_value);
    qsort(devices, n, sizeof *devices, by_value);
    const double batch_s = b->batch / qps;
    printf("{\"module\": \"%s\", \"card\": \"%s\", \"driver\": %u, \"rows\": %zu, \"dim\": %u, "
           "\"dtype\": \"%s\", \"k\": %u, \"segments\": %u, \"batch\": %u, \"mode\": \"%s\", \"percent\": %u, "
           "\"qps\": %.1f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"device_ms\": %.4f, \"batches\": %zu, "
           "\"bytes\": %.0f, \"flops\": %.0f, \"unit_flops\": %.0f",
           b->m->name, b->card, b->driver, b->set.n, b->set.dim, dtypes[b->set.dtype], b->set.k,
           b->set.nsegments, b->batch, set_mode_names[b->mode], b->set.percents[b->p], qps,
           set_percentile(walls, n, 0.5), set_percentile(walls, n, 0.99), set_percentile(devices, n, 0.5), n,
           c.bytes, c.flops, c.unit_flops);
    if (b->gbps > 0)
        printf(", \"byte_share\": %.4f", c.bytes / batch_s / (b->gbps * 1e9));
    if (b->tflops > 0)
        printf(", \"matrix_share\": %.4f, \"unit_share\": %.4f", c.flops / batch_s / (b->tflops * 1e12),
               c.unit_flops / batch_s / (b->tflops * 1e12));
    printf(", \"answered\": %llu, \"checked\": %llu, \"differ\": %llu, \"retried\": %llu, \"beyond\": %llu}\n",
           (unsigned long long)b->answered, (unsigned long long)b->checked, (unsigned long long)b->differ,
           (unsigned long long)b->retried, (unsigned long long)b->beyond);
}

/* ---- what a peer needs ---- */

static void put(FILE *f, const void *data, size_t bytes)
{
    if (bytes > 0 && fwrite(data, 1, bytes, f) != bytes)
        die("write", strerror(errno));
}

static void write_rows(const gpu_set *s, FILE *f, size_t from, size_t count)
{
    float *part = need(bw_alloc_vectors((size_t)SET_PART * s->dim * sizeof *part));
    const size_t end = from < s->n && count < s->n - from ? from + count : s->n;
    for (size_t at = from; at < end; at += SET_PART) {
        const size_t many = end - at < SET_PART ? end - at : SET_PART;
        bw_decode_rows(s->dtype, set_row_at(s, at), s->scales ? s->scales + at : NULL, many, s->dim, part);
        put(f, part, many * s->dim * sizeof *part);
    }
    bw_free_vectors(part);
}

static void write_file(const gpu_set *s, const char *what, const char *path, size_t a, size_t count)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        die("write", strerror(errno));
    if (strcmp(what, "rows") == 0)
        write_rows(s, f, a, count);
    else if (strcmp(what, "queries") == 0)
        put(f, s->queries, (size_t)s->pool * s->dim * sizeof(float));
    else
        for (size_t i = 0; i < s->n; i++)
            put(f, set_bit(s, (uint32_t)a, i) ? "\1" : "\0", 1);
    if (fclose(f) != 0)
        die("write", strerror(errno));
    printf("{\"written\": \"%s\"}\n", what);
}

static void write_exact(const gpu_set *s, set_mode mode, uint32_t p)
{
    printf("{\"exact\": [");
    for (uint32_t q = 0; q < s->check; q++) {
        const size_t list = set_exact_at(s, q, mode, p);
        printf("%s[", q ? ", " : "");
        for (uint32_t i = 0; i < s->exact_n[list]; i++)
            printf("%s%u", i ? ", " : "", s->exact[list * s->k + i].row);
        printf("]");
    }
    printf("]}\n");
}

/* ---- words ---- */

static size_t word_index(const char *word, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (word && strcmp(word, names[i]) == 0)
            return i;
    die("not known", word ? word : "nothing");
    return 0;
}

static size_t word_count(const char *word, size_t least, size_t most)
{
    char *end = NULL;
    const unsigned long long v = word ? strtoull(word, &end, 10) : 0;
    if (!word || end == word || *end || v < least || v > most)
        die("not a number in range", word ? word : "nothing");
    return (size_t)v;
}

static void option(bench *b, options *o, const char *name, char *value)
{
    static const char *const names[] = {"npy", "n", "dim", "dtype", "metric", "k", "seed", "segments", "percents",
                                        "pool", "check", "folder", "device", "workspace-mb", "pinned-mb", "gbps",
                                        "tflops"};
    static const char *const dtypes[] = {"f32", "f16", "bf16", "i8"};
    static const char *const metrics[] = {"cosine", "dot", "euclid"};
    static const bw_metric metric_of[] = {BW_METRIC_COSINE, BW_METRIC_DOT, BW_METRIC_EUCLID};
    gpu_set *s = &b->set;
    char *rest = NULL;
    switch (word_index(name, names, sizeof names / sizeof *names)) {
    case 0: o->npy = value; break;
    case 1: s->n = word_count(value, 1, UINT32_MAX - 1); break;
    case 2: s->dim = (uint32_t)word_count(value, 1, BW_GPU_DIM_MAX); break;
    case 3: s->dtype = (bw_dtype)word_index(value, dtypes, 4); break;
    case 4: s->metric = metric_of[word_index(value, metrics, 3)]; break;
    case 5: s->k = (uint32_t)word_count(value, 1, SET_K_MAX); break;
    case 6: s->seed = word_count(value, 0, SIZE_MAX); break;
    case 7: s->nsegments = (uint32_t)word_count(value, 1, BW_GPU_READS_MAX / BW_GPU_BATCH_MAX); break;
    case 8:
        s->npercents = 0;
        for (char *w = strtok_r(value, ",", &rest); w && s->npercents < SET_PERCENTS_MAX;
             w = strtok_r(NULL, ",", &rest))
            s->percents[s->npercents++] = (uint32_t)word_count(w, 1, 100);
        break;
    case 9: s->pool = (uint32_t)word_count(value, 1, 1 << 20); break;
    case 10: s->check = (uint32_t)word_count(value, 0, SET_CHECK_MAX); break;
    case 11: o->folder = value; break;
    case 12: o->gpu.device = (uint32_t)word_count(value, 0, BW_GPU_DEVICES_MAX - 1); break;
    case 13: o->gpu.workspace_bytes = (uint64_t)word_count(value, 1, 1 << 20) << 20; break;
    case 14: o->gpu.pinned_bytes = (uint64_t)word_count(value, 1, 1 << 20) << 20; break;
    case 15: b->gbps = strtod(value, NULL); break;
    default: b->tflops = strtod(value, NULL); break;
    }
}

static void command(bench *b, char *line)
{
    static const char *const commands[] = {"run", "exact", "rows", "queries", "mask"};
    enum { RUN, EXACT };
    char *rest = NULL, *w[5] = {NULL};
    size_t n = 0;
    for (char *at = strtok_r(line, " \n", &rest); at && n < 5; at = strtok_r(NULL, " \n", &rest))
        w[n++] = at;
    if (n == 0)
        return;
    const size_t which = word_index(w[0], commands, 5);
    if (which > EXACT) {
        if (!w[1])
            die("write", "no path");
        write_file(&b->set, w[0], w[1], w[2] ? word_count(w[2], 0, SIZE_MAX) : 0,
                   w[3] ? word_count(w[3], 0, SIZE_MAX) : 0);
        return;
    }
    char **about = which == RUN ? w + 2 : w + 1; /* mode, percent */
    b->mode = (set_mode)word_index(about[0], set_mode_names, SET_MODES);
    const size_t percent = word_count(about[1], 1, 100);
    for (b->p = 0; b->p < b->set.npercents && b->set.percents[b->p] != percent;)
        b->p++;
    if (b->p == b->set.npercents)
        die("not among percents", about[1]);
    if (which == EXACT) {
        write_exact(&b->set, b->mode, b->p);
        return;
    }
    b->batch = (uint32_t)word_count(w[1], 1, BW_GPU_BATCH_MAX);
    run(b, (double)word_count(w[4], 0, 600000));
}

int main(int argc, char **argv)
{
    static bench b = {.set = {.dtype = BW_DTYPE_F16, .metric = BW_METRIC_COSINE, .dim = 384, .k = 10,
                              .nsegments = 100, .pool = 8192, .check = 8, .npercents = 4,
                              .percents = {100, 50, 10, 1}, .n = 1000000, .seed = 1}};
    static char line[LINE_MAX_BYTES];
    options o = {NULL, NULL, {0, 0, 0, 0}};
    for (int i = 1; i + 1 < argc; i += 2)
        option(&b, &o, argv[i], argv[i + 1]);
    if (argc % 2 == 0)
        die("option without a value", argv[argc - 1]);
    b.set.check = b.set.check < b.set.pool ? b.set.check : b.set.pool;
    const int status = device_open(&b, &o); /* before minutes are spent on rows */
    if (status != 0)
        return status;
    double t0 = now_s();
    if (!set_make(&b.set, o.npy))
        die("rows", "not made");
    const double made = now_s() - t0;
    t0 = now_s();
    send_all(&b);
    const double sent = now_s() - t0;
    t0 = now_s();
    if (!set_exact(&b.set))
        die("memory", "none left");
    printf("{\"ready\": %zu, \"dim\": %u, \"card\": \"%s\", \"module\": \"%s\", \"make_s\": %.3f, \"send_s\": %.3f, "
           "\"exact_s\": %.3f, \"isa\": \"%s\"}\n",
           b.set.n, b.set.dim, b.card, b.m->name, made, sent, now_s() - t0, bw_kernels_get()->isa);
    fflush(stdout);
    uint64_t differ = 0;
    while (fgets(line, sizeof line, stdin)) {
        b.differ = 0;
        command(&b, line);
        differ += b.differ;
        fflush(stdout);
    }
    bench_close(&b);
    return differ > 0;
}
