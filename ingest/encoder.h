/* Text embedding in the cell: a BERT-family encoder that reads a Hugging Face folder
 * (config.json, vocab.txt, model.safetensors, optional 1_Pooling/config.json,
 * sentence_bert_config.json, modules.json). Devlin et al. 2019; Reimers & Gurevych
 * 2019.
 *
 * A text's vector has the same bits alone and in any batch and with any thread count:
 * matrix products run in one fixed order. Immutable after open; encode is thread-safe.
 */
#ifndef BW_ENCODER_H
#define BW_ENCODER_H
#include "../engine/base/base.h"

typedef struct bw_encoder bw_encoder;
BW_MUST_USE bw_status bw_encoder_open(bw_ctx *ctx, const char *folder,
                                      bw_encoder **out);
void bw_encoder_close(bw_encoder *e);
uint32_t bw_encoder_dim(const bw_encoder *e);
uint32_t bw_encoder_tokens_max(const bw_encoder *e); /* [CLS] and [SEP] included */
bw_str bw_encoder_model(const bw_encoder *e); /* name and digest of the weights */
/* WordPiece ids with [CLS] … [SEP], cut at tokens_max; in ctx's arena. */
BW_MUST_USE bw_status bw_encoder_tokenize(bw_ctx *ctx, const bw_encoder *e, bw_str text,
                                          const uint32_t **ids, size_t *n);
/* n texts -> n × dim f32, row-major, length 1. */
BW_MUST_USE bw_status bw_encoder_encode(bw_ctx *ctx, const bw_encoder *e,
                                        const bw_str *texts, size_t n, float *out);
#endif
