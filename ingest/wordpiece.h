/* WordPiece tokenizer of BERT (Devlin et al. 2019; Wu et al. 2016), with the basic
 * tokenizer's cleaning as the Hugging Face `tokenizers` library does it, since that
 * library made the reference ids. Immutable after build. */
#ifndef BW_WORDPIECE_H
#define BW_WORDPIECE_H
#include "../engine/base/json.h"

typedef struct bw_wordpiece bw_wordpiece;
typedef struct bw_wordpiece_options {
    bool lowercase, strip_accents, split_cjk;
} bw_wordpiece_options;

/* vocab: vocab.txt, one piece a line, the line's number is the id; or tokenizer.json
 * with a WordPiece model (json = true). Copied. */
BW_MUST_USE bw_status bw_wordpiece_new(bw_ctx *ctx, bw_str vocab, bool json,
                                       bw_wordpiece_options o, bw_wordpiece **out);
void bw_wordpiece_free(bw_wordpiece *w);
uint32_t bw_wordpiece_ids(const bw_wordpiece *w); /* largest id + 1 */
/* [CLS] … [SEP], at most ids_max ids (>= 2); text is any bytes (what is no UTF-8 is
 * taken out, as U+FFFD would be). ids has room for ids_max. Cannot fail. */
size_t bw_wordpiece_run(const bw_wordpiece *w, bw_str text, uint32_t *ids,
                        size_t ids_max);
#endif
