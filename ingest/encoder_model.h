/* The encoder's weights in the form that the forward pass reads. Immutable after open.
 */
#ifndef BW_ENCODER_MODEL_H
#define BW_ENCODER_MODEL_H
#include "encoder.h"
#include "gemm.h"
#include "wordpiece.h"

typedef struct bw_linear { /* y = x W + b */
    float *panels, *bias;
    size_t in, out;
} bw_linear;

typedef struct bw_norm {
    float *gain, *bias;
} bw_norm;

typedef struct bw_encoder_layer {
    bw_linear qkv, attention_out, up,
        down; /* query, key, value side by side: 3 · hidden */
    bw_norm attention_norm, output_norm;
} bw_encoder_layer;

typedef struct bw_encoder_shape {
    uint32_t hidden, heads, layers, intermediate, positions, types, vocab, tokens_max;
    float norm_eps;
    bool pool_cls; /* else the mean over all tokens */
} bw_encoder_shape;

struct bw_encoder {
    bw_encoder_shape shape;
    const bw_gemm *gemm;
    bw_wordpiece *wordpiece;
    float *words, *positions, *type0; /* embeddings; type0 = the row of segment 0 */
    bw_norm embedding_norm;
    bw_encoder_layer *layers;
    float **blocks; /* all float blocks, for close */
    size_t nblocks, blocks_max;
    char model[128];
};

/* For tests: NULL takes the best level; false when the CPU lacks it. */
bool bw_encoder__set_isa(bw_encoder *e, const char *isa);
/* For tests: most threads of one encode call; 0 = the processors that we may use. */
void bw_encoder__set_threads(unsigned n);
#endif
