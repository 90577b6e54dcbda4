/* Bitsets on a device, kept between queries: which rows of a segment may be read.
 *
 * The key is the set itself: a hash finds it, and every word is compared, so that a
 * filter's name, a clash of hashes or a stale version can never lend rows to a caller.
 * What a write changes is another set, and the old one goes as the longest unused. The
 * words stay on the host for that, and for checking what the device brings back. A set
 * has its segment's whole capacity: bits past the rows that a query may see are 0, so it
 * serves however many rows the batch's item has. "All" and "none" never come here.
 *
 * A set goes with its segment, or when the budget wants room; the worker frees the
 * device's part (trash). */
#include "gpu_private.h"

static size_t words_of(const gpu_segment *s)
{
    return bw_bitmap_words(s->shape.rows);
}

/* Finds the set; does not stand for it. */
static uint64_t mix(const uint64_t *words, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ words[i]) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

uint64_t *gpu_bits_words(const bw_gpu_shape *shape, const uint64_t *from, uint32_t rows)
{
    const size_t n = bw_bitmap_words(shape->rows), whole = rows / 64;
    uint64_t *out = bw_calloc(n, sizeof *out);
    assert(rows <= shape->rows);
    if (!out)
        return NULL;
    if (from)
        memcpy(out, from, whole * sizeof *out);
    else
        memset(out, 0xFF, whole * sizeof *out);
    if (rows % 64)
        out[whole] = (from ? from[whole] : ~(uint64_t)0) & (((uint64_t)1 << rows % 64) - 1);
    return out;
}

static void lru_remove(gpu_device *d, gpu_bits *b)
{
    *(b->newer ? &b->newer->older : &d->bits_newest) = b->older;
    *(b->older ? &b->older->newer : &d->bits_oldest) = b->newer;
    b->newer = b->older = NULL;
}

static void lru_add(gpu_device *d, gpu_bits *b)
{
    b->older = d->bits_newest;
    b->newer = NULL;
    *(d->bits_newest ? &d->bits_newest->newer : &d->bits_oldest) = b;
    d->bits_newest = b;
}

/* Out of every list; the worker frees it. */
static void throw_away(gpu_device *d, gpu_bits *b)
{
    gpu_bits **at = &b->segment->bits;
    assert(b->refs == 0);
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    lru_remove(d, b);
    d->c.bits_bytes -= words_of(b->segment) * sizeof *b->words;
    b->segment = NULL;
    b->next = d->trash_bits;
    d->trash_bits = b;
}

bool gpu_bits_evict(gpu_device *d)
{
    gpu_bits *b = d->bits_oldest;
    while (b && b->refs > 0)
        b = b->newer;
    if (!b)
        return false;
    throw_away(d, b);
    d->c.bits_evicted++;
    return true;
}

static gpu_bits *find(const gpu_segment *s, uint64_t hash, const uint64_t *words)
{
    gpu_bits *b = s->bits;
    while (b && (b->hash != hash ||
                 memcmp(b->words, words, words_of(s) * sizeof *words) != 0))
        b = b->next;
    return b;
}

static gpu_bits *add(gpu_device *d, gpu_segment *s, uint64_t hash, uint64_t *words)
{
    const uint64_t bytes = words_of(s) * sizeof *words;
    while (d->c.bits_bytes + bytes > d->bits_max)
        if (!gpu_bits_evict(d))
            return NULL;
    gpu_bits *b = bw_calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->segment = s;
    b->hash = hash;
    b->words = words;
    b->next = s->bits;
    s->bits = b;
    lru_add(d, b);
    d->c.bits_bytes += bytes;
    d->c.bits_made++;
    return b;
}

gpu_bits *gpu_bits_get(gpu_device *d, gpu_segment *s, uint64_t *words)
{
    if (!words)
        return NULL;
    const uint64_t hash = mix(words, words_of(s));
    gpu_bits *b = find(s, hash, words);
    if (b) {
        lru_remove(d, b);
        lru_add(d, b);
        d->c.bits_found++;
        bw_free(words);
    } else if (!(b = add(d, s, hash, words))) {
        bw_free(words);
        return NULL;
    }
    b->refs++;
    return b;
}

void gpu_bits_put(gpu_device *d, gpu_bits *b)
{
    (void)d;
    if (!b)
        return;
    assert(b->refs > 0);
    b->refs--;
}

void gpu_bits_drop(gpu_device *d, gpu_segment *s)
{
    while (s->bits)
        throw_away(d, s->bits);
}
