/* HTML through libxml2's forgiving parser: no network, no entities from outside, no
 * recursion (the tree is walked by its pointers). What a reader does not see is
 * dropped: head, script, style, template, forms' machinery, hidden elements, comments.
 * The encoding is ours to find (load_text.c), so libxml2 opens no converter. */
#include "raw.h"
#include <libxml/HTMLparser.h>
#include <strings.h>

enum { NODES_MAX = 4 << 20 };

typedef struct walker {
    bw_raw *out;
    bw_buf text;
    uint32_t heading;
    unsigned pre; /* depth of <pre> */
    bw_status status;
} walker;

static bool is_one_of(const xmlNode *n, const char *const *names)
{
    for (; *names; names++)
        if (xmlStrcasecmp(n->name, (const xmlChar *)*names) == 0)
            return true;
    return false;
}

static bool is_named(const xmlNode *n, const char *name)
{
    return n->name && xmlStrcasecmp(n->name, (const xmlChar *)name) == 0;
}

static const xmlChar *attribute(const xmlNode *n, const char *name)
{
    for (const xmlAttr *a = n->properties; a; a = a->next)
        if (xmlStrcasecmp(a->name, (const xmlChar *)name) == 0)
            return a->children && a->children->content ? a->children->content
                                                       : (const xmlChar *)"";
    return NULL;
}

/* style text holds `property` : `value`, blanks ignored */
static bool style_says(const xmlChar *style, const char *property, const char *value)
{
    size_t n = strlen(property);
    for (const char *p = (const char *)style;
         p && (p = strcasestr(p, property)) != NULL;) {
        p += n;
        while (*p == ' ' || *p == '\t')
            p++;
        if (*p++ != ':')
            return false;
        while (*p == ' ' || *p == '\t')
            p++;
        if (strncasecmp(p, value, strlen(value)) == 0)
            return true;
    }
    return false;
}

static bool skipped(const xmlNode *n)
{
    static const char *const names[] = {
        "script", "style",    "template", "noscript", "iframe", "object",
        "embed",  "svg",      "math",     "canvas",   "select", "button",
        "input",  "textarea", "head",     "link",     "meta",   NULL};
    if (n->type != XML_ELEMENT_NODE || !n->name)
        return n->type != XML_TEXT_NODE && n->type != XML_CDATA_SECTION_NODE;
    const xmlChar *style = attribute(n, "style"), *aria = attribute(n, "aria-hidden");
    return is_one_of(n, names) || attribute(n, "hidden") ||
           (aria && xmlStrcasecmp(aria, (const xmlChar *)"true") == 0) ||
           style_says(style, "display", "none") ||
           style_says(style, "visibility", "hidden");
}

static bool is_block(const xmlNode *n)
{
    static const char *const names[] = {
        "p",          "div",     "section",  "article", "main",       "aside", "header",
        "footer",     "nav",     "ul",       "ol",      "dl",         "dt",    "dd",
        "li",         "table",   "tr",       "caption", "blockquote", "pre",   "figure",
        "figcaption", "form",    "fieldset", "address", "hr",         "h1",    "h2",
        "h3",         "h4",      "h5",       "h6",      "body",       "html",  "title",
        "details",    "summary", NULL};
    return is_one_of(n, names);
}

static uint32_t heading_level(const xmlNode *n)
{
    const char *s = (const char *)n->name;
    return (s[0] == 'h' || s[0] == 'H') && s[1] >= '1' && s[1] <= '6' && s[2] == 0
               ? (uint32_t)(s[1] - '0')
               : 0;
}

static void end_block(walker *w)
{
    if (!w->status)
        w->status = w->text.failed
                        ? bw_fail_nomem(w->out->ctx)
                        : bw_raw_add(w->out, w->heading, 0, bw_buf_view(&w->text));
    w->text.len = 0;
}

static void put_text(walker *w, const char *s)
{
    if (w->pre) {
        bw_buf_puts(&w->text, s);
        return;
    }
    for (; *s; s++) {
        bool blank = *s == ' ' || *s == '\t' || *s == '\n' || *s == '\r' || *s == '\f';
        bool after_blank = w->text.len == 0 || w->text.ptr[w->text.len - 1] == ' ' ||
                           w->text.ptr[w->text.len - 1] == '\n';
        if (!blank || !after_blank)
            bw_buf_putc(&w->text, blank ? ' ' : *s);
        if (w->text.failed)
            return;
    }
}

static void enter(walker *w, const xmlNode *n)
{
    if (n->type != XML_ELEMENT_NODE) {
        if (n->content)
            put_text(w, (const char *)n->content);
        return;
    }
    if (is_block(n)) {
        end_block(w);
        w->heading = heading_level(n);
    }
    w->pre += is_named(n, "pre");
    if (is_named(n, "br"))
        bw_buf_putc(&w->text, '\n');
    else if (is_named(n, "td") || is_named(n, "th"))
        bw_buf_puts(&w->text, w->text.len ? " | " : "");
    else if (is_named(n, "li"))
        bw_buf_puts(&w->text, "- ");
    else if (is_named(n, "img") && attribute(n, "alt"))
        put_text(w, (const char *)attribute(n, "alt"));
}

static void leave(walker *w, const xmlNode *n)
{
    if (n->type != XML_ELEMENT_NODE)
        return;
    if (is_block(n)) {
        if (bw_str_is(bw_buf_view(&w->text), "- "))
            w->text.len = 0;
        end_block(w);
        w->heading = 0;
    }
    w->pre -= is_named(n, "pre");
}

/* The text of the first <title>, wherever it stands. */
static bw_status find_title(xmlNode *root, bw_raw *out)
{
    size_t seen = 0;
    for (xmlNode *n = root; n && seen < NODES_MAX; seen++) {
        if (n->type == XML_ELEMENT_NODE && is_named(n, "title") && n->children &&
            n->children->content)
            return bw_raw_title(out, bw_str_c((const char *)n->children->content));
        if (n->type == XML_ELEMENT_NODE && n->children && !is_named(n, "body")) {
            n = n->children;
            continue;
        }
        while (n && n != root && !n->next)
            n = n->parent;
        n = !n || n == root ? NULL : n->next;
    }
    return BW_OK;
}

static bw_status walk(xmlNode *root, bw_raw *out)
{
    walker w = {.out = out};
    size_t seen = 0;
    xmlNode *n = root;
    while (n && !w.status) {
        if (++seen > NODES_MAX) {
            w.status =
                bw_fail(out->ctx, BW_EINVALID, "html: more elements than the limit");
            break;
        }
        bool skip = skipped(n);
        if (!skip)
            enter(&w, n);
        if (!skip && n->type == XML_ELEMENT_NODE && n->children) {
            n = n->children;
            continue;
        }
        if (!skip)
            leave(&w, n);
        while (n != root && !n->next) {
            n = n->parent;
            leave(&w, n);
        }
        n = n == root ? NULL : n->next;
    }
    end_block(&w);
    bw_buf_clear(&w.text);
    return w.status;
}

/* The name behind "charset" in the first 1,024 bytes. */
static bw_str declared_charset(bw_str s)
{
    size_t look = s.len < 1024 ? s.len : 1024;
    for (size_t i = 0; i + 8 < look; i++) {
        if (strncasecmp(s.ptr + i, "charset", 7) != 0)
            continue;
        size_t b = i + 7;
        while (b < look && strchr("= \t\"'", s.ptr[b]) && s.ptr[b])
            b++;
        size_t e = b;
        while (e < look &&
               (strchr("-_.:", s.ptr[e]) || (s.ptr[e] >= '0' && s.ptr[e] <= 'z')) &&
               s.ptr[e] && !strchr(";<=>?", s.ptr[e]))
            e++;
        return (bw_str){s.ptr + b, e - b};
    }
    return (bw_str){NULL, 0};
}

bw_status bw_load_html(bw_str bytes, bw_raw *out)
{
    bw_str s = {NULL, 0};
    bw_status st = bw_decode_text(out->ctx, bytes, declared_charset(bytes), &s);
    if (st)
        return st;
    if (s.len > BW_RAW_BYTES_MAX)
        return bw_fail(out->ctx, BW_EINVALID, "html: longer than the limit");
    if (bw_raw_blank(s))
        return BW_OK;
    const int options = HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING |
                        HTML_PARSE_NONET | HTML_PARSE_NODEFDTD | HTML_PARSE_COMPACT;
    char *text =
        bw_arena_alloc(out->ctx, s.len + 1); /* without NULs: libxml2 stops there */
    if (!text)
        return bw_fail_nomem(out->ctx);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i])
            text[n++] = s.ptr[i];
    xmlResetLastError();
    htmlDocPtr doc = htmlReadMemory(text, (int)n, NULL, "UTF-8", options);
    const xmlError *error = xmlGetLastError();
    if (!doc)
        return bw_fail(out->ctx, BW_EINVALID, "html: cannot be parsed");
    if (error &&
        error->level == XML_ERR_FATAL) { /* bad markup is a mere error: it reads on */
        xmlFreeDoc(doc);
        return bw_fail(out->ctx, BW_EINVALID,
                       "html: elements are nested too deeply, or memory ran out");
    }
    xmlNode *root = xmlDocGetRootElement(doc);
    if (root)
        st = find_title(root, out);
    if (root && !st)
        st = walk(root, out);
    xmlFreeDoc(doc);
    return st;
}
