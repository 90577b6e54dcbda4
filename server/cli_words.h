/* Words of the command line that ingest and query share: label sets as name=value, and
 * text of others made fit for a terminal. */
#ifndef BW_CLI_WORDS_H
#define BW_CLI_WORDS_H
#include "../engine/base/json.h"

enum { BW_LABEL_WORDS_MAX = 64 };

typedef struct bw_label_words { /* borrowed from argv, in the order given */
    const char *name[BW_LABEL_WORDS_MAX];
    const char *value[BW_LABEL_WORDS_MAX];
    size_t n;
} bw_label_words;

/* "name=value"; false (said on stderr) for an unknown name or a bad value. Cuts arg at
 * '='. */
bool bw_label_words_take(bw_label_words *w, char *arg);
/* One label object: the words, with the members of `over` (or NULL) in place of theirs.
 */
void bw_label_words_put(const bw_label_words *w, const bw_json *over, bw_buf *b);
/* Copies text so that it cannot steer a terminal; cut to cap with an ellipsis. */
void bw_cli_plain(const char *text, size_t n, char *out, size_t cap);
#endif
