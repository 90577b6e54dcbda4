/* Label words and plain text for the command line (cli_words.h). The vocabulary is the
 * cell's; here only the shape of each member is known. */
#include "cli_words.h"
#include "../engine/base/unseen.h"
#include <stdio.h>

typedef enum word_kind { WORD_LIST, WORD_NUMBER, WORD_BOOL, WORD_TEXT } word_kind;
static const struct {
    const char *name;
    word_kind kind;
} members[] = {{"tenant", WORD_TEXT},     {"regimes", WORD_LIST},
               {"residency", WORD_LIST},  {"sensitivity", WORD_NUMBER},
               {"categories", WORD_LIST}, {"labels", WORD_LIST},
               {"purposes", WORD_LIST},   {"legal_hold", WORD_BOOL}};
enum { MEMBERS = sizeof members / sizeof *members };

static size_t member_of(const char *name)
{
    size_t i = 0;
    while (i < MEMBERS && strcmp(members[i].name, name) != 0)
        i++;
    return i;
}

static bool value_ok(word_kind kind, const char *value)
{
    if (kind == WORD_NUMBER)
        return value[0] >= '0' && value[0] <= '9' && value[1] == '\0';
    if (kind == WORD_BOOL)
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    return bw_utf8_valid(value, strlen(value));
}

bool bw_label_words_take(bw_label_words *w, char *arg)
{
    char *eq = strchr(arg, '=');
    if (eq)
        *eq = '\0';
    size_t i = member_of(arg);
    if (!eq || i == MEMBERS || !value_ok(members[i].kind, eq + 1) ||
        w->n == BW_LABEL_WORDS_MAX) {
        (void)fprintf(
            stderr,
            "bailiwick: --label wants name=value with a known name, not %.60s\n", arg);
        return false;
    }
    w->name[w->n] = arg;
    w->value[w->n++] = eq + 1;
    return true;
}

/* All values of one list member: words between commas, from every --label of that name.
 */
static void put_list(const bw_label_words *w, const char *name, bw_buf *b)
{
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < w->n; i++) {
        if (strcmp(w->name[i], name) != 0)
            continue;
        for (const char *p = w->value[i]; *p;) {
            size_t n = strcspn(p, ",");
            if (n) {
                bw_json_sep(b);
                bw_json_put_str(b, (bw_str){p, n});
            }
            p += n + (p[n] == ',');
        }
    }
    bw_buf_putc(b, ']');
}

static const char *last_value(const bw_label_words *w, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->name[i], name) == 0)
            value = w->value[i];
    return value;
}

void bw_label_words_put(const bw_label_words *w, const bw_json *over, bw_buf *b)
{
    bw_buf_putc(b, '{');
    for (size_t i = 0; i < MEMBERS; i++) {
        const char *value = last_value(w, members[i].name);
        if (!value || bw_json_get(over, members[i].name))
            continue;
        bw_json_put_key(b, members[i].name);
        if (members[i].kind == WORD_LIST)
            put_list(w, members[i].name, b);
        else if (members[i].kind == WORD_TEXT)
            bw_json_put_str(b, bw_str_c(value));
        else
            bw_buf_puts(b, value);
    }
    for (const bw_json *m = over ? over->child : NULL; m; m = m->next) {
        bw_json_sep(b);
        bw_json_put_str(b, m->key);
        bw_buf_putc(b, ':');
        bw_buf_str(b, m->raw);
    }
    bw_buf_putc(b, '}');
}

void bw_cli_plain(const char *text, size_t n, char *out, size_t cap)
{
    static const char more[] = "…";
    size_t k = 0;
    bool valid = bw_utf8_valid(text, n), cut = false;
    bw_require(cap >= sizeof more + 4);
    for (size_t i = 0; i < n && !cut; i++) {
        unsigned char c = (unsigned char)text[i];
        size_t unseen = !valid && c >= 0x80 ? 1 : bw_utf8_unseen(text + i, n - i);
        if (k + sizeof more + 4 > cap) {
            cut = true;
        } else if (unseen) {
            out[k++] = c == '\n' || c == '\t' ? ' ' : '?';
            i += unseen - 1;
        } else {
            out[k++] = text[i];
        }
    }
    while (cut && k > 0 && ((unsigned char)out[k - 1] & 0xC0) == 0x80)
        k--;
    if (cut && k > 0 && (unsigned char)out[k - 1] >= 0xC0)
        k--;
    if (cut) {
        memcpy(out + k, more, sizeof more - 1);
        k += sizeof more - 1;
    }
    out[k] = '\0';
}
