/* Words of objects that are kept word by word (qdrant_words.c): a collection's settings
 * and a payload index's parameters. */
#ifndef BW_QDRANT_WORDS_H
#define BW_QDRANT_WORDS_H
#include "qdrant.h"

typedef struct bw_qdrant_word {
    const char *name;
    char
        type; /* u unsigned, n number, b bool, s string, o object, x number or string */
    const struct bw_qdrant_word *inner; /* of an object whose words are known */
    uint32_t min;
    const char *fallback; /* shown when it was not set; NULL: left out then */
} bw_qdrant_word;

/* over, then under it base, both objects or NULL: each known word once, checked for its
 * type. words: the table ends with a name of NULL. Depth: 2. */
BW_MUST_USE bw_status bw_qdrant__put_words(bw_qdrant_parse *p, bw_buf *b,
                                           const bw_qdrant_word *words,
                                           const bw_json *base, const bw_json *over);
/* Members of an object: what was kept, else the fallbacks. */
void bw_qdrant__put_defaults(bw_buf *b, const bw_qdrant_word *words, const bw_json *kept);
#endif
