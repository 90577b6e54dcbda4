/* One pass over the text. Mail addresses are found from their '@'; everything else
 * begins with a letter or digit behind something that is neither: there, at most 34
 * letters and digits are read into a run, single separators taken out, and the rules
 * look whether the run begins with a number of theirs. So each byte costs a bounded
 * number of looks, whatever the text is. Overlaps: the first kind in the order of
 * find_number wins, and the scan goes on behind it. */
#include "detect.h"

enum { BEFORE = 40, LOCAL_MAX = 64, DOMAIN_MAX = 253, PHONE_MIN = 8, PHONE_MAX = 15 };

static const char *const names[BW_DETECT_COUNT] = {
    "email", "phone", "iban",  "payment-card", "id-be", "id-br", "id-ch",
    "id-cn", "id-de", "id-es", "id-fi",        "id-fr", "id-gb", "id-in",
    "id-it", "id-nl", "id-pl", "id-pt",        "id-se", "id-us"};

const char *bw_detect_name(bw_detect_kind kind)
{
    return names[kind];
}

bool bw_detect_parse(bw_str name, bw_detect_kind *out)
{
    for (int i = 0; i < BW_DETECT_COUNT; i++)
        if (bw_str_eq(name, bw_str_c(names[i]))) {
            *out = (bw_detect_kind)i;
            return true;
        }
    return false;
}

/* ---- characters ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

/* Bytes beyond ASCII count as letters where words end and begin. */
static bool is_word(char c)
{
    return is_digit(c) || is_letter(c) || (unsigned char)c >= 0x80 || c == '_';
}

/* A separator within numbers at i: its length, and its ASCII likeness; 0 = none. */
static size_t separator(bw_str t, size_t i, char *as)
{
    if (i >= t.len)
        return 0;
    *as = t.ptr[i];
    bw_str rest = {t.ptr + i, t.len - i};
    if (rest.len >= 2 && (rest.ptr[0] == ')' || rest.ptr[1] == '(')) { /* "(0) 20" */
        *as = '(';
        return rest.ptr[1] == ' ' || rest.ptr[1] == '-' || rest.ptr[1] == '(' ? 2 : 1;
    }
    if (memchr(" -./", t.ptr[i], 4))
        return 1;
    static const struct {
        const char *bytes;
        char as;
    } wide[] = {{"\xC2\xA0", ' '},      /* no-break space */
                {"\xE2\x80\xAF", ' '},  /* narrow no-break space */
                {"\xE2\x80\x91", '-'},  /* non-breaking hyphen */
                {"\xE2\x80\x93", '-'}}; /* en dash */
    for (size_t k = 0; k < sizeof wide / sizeof wide[0]; k++) {
        size_t n = strlen(wide[k].bytes);
        if (rest.len >= n && memcmp(rest.ptr, wide[k].bytes, n) == 0) {
            *as = wide[k].as;
            return n;
        }
    }
    return 0;
}

bool bw_detect__digits(const char *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_digit(c[i]))
            return false;
    return true;
}

static size_t read_run(bw_str t, size_t i, bw_detect__run *r)
{
    size_t begin = i;
    char sep = 0;
    r->n = 0;
    for (;;) {
        while (i < t.len && (is_digit(t.ptr[i]) || is_letter(t.ptr[i]))) {
            if (r->n == BW_DETECT__CHARS) { /* what follows still tells of an end */
                r->c[r->n] = t.ptr[i];
                r->sep[r->n] = sep;
                return i - begin;
            }
            char c = lower(t.ptr[i]);
            r->c[r->n] = is_letter(c) ? (char)(c - 32) : c;
            r->sep[r->n] = sep;
            r->end[r->n++] = ++i;
            sep = 0;
        }
        r->c[r->n] = 0;
        r->sep[r->n] = 0;
        if (i < t.len && is_word(t.ptr[i]) && separator(t, i, &sep) == 0) {
            r->c[r->n] = '_'; /* a letter beyond ASCII: the word goes on */
            return i - begin;
        }
        size_t n = separator(t, i, &sep);
        if (n == 0 || i + n >= t.len ||
            !(is_digit(t.ptr[i + n]) || is_letter(t.ptr[i + n])))
            return i - begin;
        i += n;
    }
}

bool bw_detect__ends(const bw_detect__run *r, size_t len)
{
    if (r->c[len] == 0)
        return true;
    char sep = r->sep[len];
    if (sep == 0)
        return false; /* its word goes on */
    if (!is_digit(r->c[len]) || !is_digit(r->c[len - 1]))
        return true;
    for (size_t i = 1; i < len; i++)
        if (r->sep[i] == sep)
            return false; /* one more group of the same kind */
    return sep == ' ' || sep == '/';
}

bool bw_detect__grouped(const bw_detect__run *r, size_t len, const char *groups)
{
    size_t at = 0;
    for (const char *g = groups; *g;) {
        size_t n = 0;
        for (; is_digit(*g); g++)
            n = n * 10 + (size_t)(*g - '0');
        if (at + n > len)
            return false;
        for (size_t i = at + 1; i < at + n; i++)
            if (r->sep[i])
                return false;
        at += n;
        if (*g) {
            if (at >= len || r->sep[at] == 0 || (*g != '?' && *g != r->sep[at]))
                return false;
            g++;
        }
    }
    return at == len;
}

bool bw_detect__told(const bw_detect__run *r, const char *words)
{
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, " ");
        for (size_t i = 0; i + n <= r->before.len; i++) {
            const char *p = r->before.ptr + i;
            size_t k = 0;
            while (k < n && lower(p[k]) == w[k])
                k++;
            if (k == n && (i == 0 || !is_word(p[-1])) &&
                (i + n == r->before.len || !is_word(p[n])))
                return true;
        }
        w += n + 1;
    }
    return false;
}

/* ---- IBAN: ISO 13616, lengths of the SWIFT registry; ISO 7064 MOD 97-10 ---- */

static size_t iban_length(const char *c)
{
    static const char table[] = "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR"
                                "22CY28CZ24DE22DJ27DK18DO28"
                                "EE20EG29ES24FI18FK18FO18FR27GB22GE22GI23GL18GR27GT28HN"
                                "28HR21HU28IE22IL23IQ23IS26"
                                "IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME"
                                "22MK19MN20MR27MT31MU30NI28"
                                "NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD"
                                "18SE24SI19SK24SM27SO23ST25"
                                "SV28TL23TN24TR26UA29VA22VG24XK20YE30";
    for (const char *p = table; *p; p += 4)
        if (p[0] == c[0] && p[1] == c[1])
            return (size_t)(p[2] - '0') * 10 + (size_t)(p[3] - '0');
    return 0;
}

static size_t iban(const bw_detect__run *r)
{
    size_t len = r->n >= 4 && bw_detect__digits(r->c + 2, 2) ? iban_length(r->c) : 0;
    if (len == 0 || r->n < len || !bw_detect__ends(r, len))
        return 0;
    bool grouped = r->sep[4] != 0;
    for (size_t i = 1; i < len; i++)
        if ((r->sep[i] != 0) != (grouped && i % 4 == 0))
            return 0;
    unsigned rest = 0;
    for (size_t k = 0; k < len; k++) {
        char c = r->c[(k + 4) % len];
        rest = is_digit(c) ? (rest * 10 + (unsigned)(c - '0')) % 97
                           : (rest * 100 + (unsigned)(c - 'A' + 10)) % 97;
    }
    return rest == 1 ? len : 0;
}

/* ---- payment cards: ISO/IEC 7812-1, annex B (Luhn); the issuers' published ranges
 * ---- */

static bool luhn(const char *c, size_t n)
{
    int sum = 0;
    for (size_t i = 0; i < n; i++) {
        int v = (c[i] - '0') * ((n - i) % 2 ? 1 : 2);
        sum += v / 10 + v % 10;
    }
    return sum % 10 == 0;
}

static size_t card(const bw_detect__run *r)
{
    static const struct {
        uint32_t low, high; /* of the first four digits */
        uint8_t lengths[3];
    } issuers[] = {
        {4000, 4999, {16, 19, 13}}, {5100, 5599, {16}},     {2221, 2720, {16}},
        {3400, 3499, {15}},         {3700, 3799, {15}},     {3000, 3059, {14, 16}},
        {3600, 3699, {14, 16}},     {3800, 3999, {14, 16}}, {6011, 6011, {16, 19}},
        {6440, 6599, {16, 19}},     {3528, 3589, {16, 19}}, {6200, 6299, {16, 19}},
        {5018, 5018, {16, 19}},     {5020, 5020, {16, 19}}, {5038, 5038, {16, 19}},
        {5893, 5893, {16, 19}},     {6304, 6304, {16, 19}}, {6759, 6763, {16, 19}}};
    static const char *const groups[] = {"16",    "4 4 4 4", "4-4-4-4",   "15",
                                         "4 6 5", "4-6-5",   "14",        "4 6 4",
                                         "4-6-4", "19",      "4 4 4 4 3", "13"};
    if (r->n < 13 || !bw_detect__digits(r->c, 13))
        return 0;
    uint32_t lead = 0;
    for (int i = 0; i < 4; i++)
        lead = lead * 10 + (uint32_t)(r->c[i] - '0');
    for (size_t i = 0; i < sizeof issuers / sizeof issuers[0]; i++) {
        if (lead < issuers[i].low || lead > issuers[i].high)
            continue;
        for (int k = 0; k < 3 && issuers[i].lengths[k]; k++) {
            size_t len = issuers[i].lengths[k];
            if (r->n < len || !bw_detect__digits(r->c, len) ||
                !bw_detect__ends(r, len) || !luhn(r->c, len))
                continue;
            for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
                if (bw_detect__grouped(r, len, groups[g]))
                    return len;
        }
    }
    return 0;
}

/* ---- telephone: ITU-T E.164 and E.123, and the usual national forms ---- */

/* How many digits the run begins with, up to where the number ends. */
static size_t leading_digits(const bw_detect__run *r)
{
    size_t n = 0;
    while (n < r->n && is_digit(r->c[n]))
        n++;
    return n;
}

static const char phone_words[] = "tel tél phone telephone telefon telefono telefone "
                                  "téléphone fon fax mobil mobile handy portable cell "
                                  "call whatsapp ";

static size_t phone(const bw_detect__run *r)
{
    size_t n = leading_digits(r), pieces = 1;
    if (n == 0 || n > PHONE_MAX + 2 || !bw_detect__ends(r, n))
        return 0;
    for (size_t i = 1; i < n; i++)
        pieces += r->sep[i] != 0;
    bw_str b = r->before;
    char last = b.len ? b.ptr[b.len - 1] : 0, second = b.len > 1 ? b.ptr[b.len - 2] : 0;
    if (last == '+')
        return r->c[0] != '0' && n <= PHONE_MAX && n >= PHONE_MIN + (pieces == 1) &&
                       second != '+' && !is_word(second)
                   ? n
                   : 0;
    if (last == ' ' && is_digit(second)) /* perhaps the tail of another number */
        return 0;
    if (r->c[0] == '0' && r->c[1] == '0') /* the sign of a foreign number */
        return n >= PHONE_MIN + 3 && r->c[2] != '0' && pieces > 1 ? n : 0;
    if (n > PHONE_MAX)
        return 0;
    static const char *const nanp[] = {"3-3-4", "3.3.4", "3(3-4"};
    for (int i = 0; i < 3 && n == 10 && r->c[0] >= '2' && r->c[3] >= '2'; i++)
        if (bw_detect__grouped(r, n, nanp[i]))
            return n;
    if (n == 10 && r->c[0] == '0' && bw_detect__grouped(r, n, "2?2?2?2?2") &&
        r->sep[2] == r->sep[8])
        return n;
    return n >= PHONE_MIN - 1 && (r->c[0] == '0' || last == '(' || pieces > 1) &&
                   bw_detect__told(r, phone_words)
               ? n
               : 0;
}

/* ---- mail: RFC 5321 4.1.2, unquoted and with a dot in the domain ---- */

static bool is_local(char c)
{
    return is_word(c) || (c && strchr("!#$%&'*+-.^`~", c));
}

static size_t local_begin(bw_str t, size_t end)
{
    size_t i = end;
    while (i > 0 && end - i <= LOCAL_MAX && is_local(t.ptr[i - 1]))
        i--;
    return i;
}

/* Whether the local part is the user or the password of a URL. */
static bool in_url(bw_str t, size_t left)
{
    if (left > 0 && t.ptr[left - 1] == ':')
        left = local_begin(t, left - 1);
    return left >= 2 && t.ptr[left - 1] == '/' && t.ptr[left - 2] == '/';
}

/* t.ptr[at] is '@'. Where the address ends, 0 = it is none. */
static size_t mail(bw_str t, size_t at)
{
    size_t left = local_begin(t, at);
    if (left == at || at - left > LOCAL_MAX || t.ptr[at - 1] == '.' || in_url(t, left))
        return 0;
    size_t i = at + 1, label = i, dots = 0;
    bool letters = true;
    for (; i < t.len && i - at <= DOMAIN_MAX; i++) {
        char c = t.ptr[i];
        if (c == '.' && i > label && i + 1 < t.len && is_word(t.ptr[i + 1])) {
            dots++;
            label = i + 1;
            letters = true;
        } else if (is_word(c) || (c == '-' && i > label)) {
            letters = letters && !is_digit(c) && c != '_';
        } else {
            break;
        }
    }
    size_t top = i - label;
    bool punycode = top > 4 && memcmp(t.ptr + label, "xn--", 4) == 0;
    if (dots == 0 || i - at > DOMAIN_MAX || top < 2 || !(letters || punycode))
        return 0;
    if (i + 1 < t.len &&
        (t.ptr[i] == '/' || (t.ptr[i] == ':' && is_word(t.ptr[i + 1]))))
        return 0; /* a host and its path */
    if (at + 2 < t.len && is_digit(t.ptr[at + 1]) && t.ptr[at + 2] == 'x')
        return 0; /* image@2x.png */
    return i;
}

/* ---- the pass ---- */

/* All kinds have one among their first characters; most words have none. */
static bool has_digit(const bw_detect__run *r)
{
    size_t i = 0;
    while (i < r->n && i < 8 && !is_digit(r->c[i]))
        i++;
    return i < r->n && i < 8;
}

static size_t find_number(const bw_detect__run *r, bw_detect_kind *kind)
{
    size_t n = iban(r);
    *kind = BW_DETECT_IBAN;
    if (n == 0 && (n = card(r)) > 0)
        *kind = BW_DETECT_CARD;
    if (n == 0)
        n = bw_detect__id(r, kind);
    if (n == 0 && (n = phone(r)) > 0)
        *kind = BW_DETECT_PHONE;
    return n;
}

/* Whether a number may begin at i: not inside a word, and not behind digits of a longer
 * number ("12-34…"). */
static bool begins(bw_str t, size_t i)
{
    if (i == 0)
        return true;
    char c = t.ptr[i - 1];
    return !is_word(c) && !(i >= 2 && memchr("-./", c, 3) && is_digit(t.ptr[i - 2]));
}

void bw_detect(bw_str text, bw_detected *out)
{
    *out = (bw_detected){0};
    for (size_t i = 0; i < text.len;) {
        char c = text.ptr[i];
        out->steps++;
        if (c == '@') {
            size_t end = mail(text, i);
            out->steps += LOCAL_MAX + (end > i ? end - i : DOMAIN_MAX);
            out->count[BW_DETECT_EMAIL] += end > 0;
            i = end > 0 ? end : i + 1;
            continue;
        }
        if (!(is_digit(c) || is_letter(c)) || !begins(text, i)) {
            i++;
            continue;
        }
        bw_detect__run run;
        size_t seen = read_run(text, i, &run), n = 0;
        size_t back = i < BEFORE ? i : BEFORE;
        run.before = (bw_str){text.ptr + i - back, back};
        out->steps += seen + BEFORE;
        bw_detect_kind kind;
        if (has_digit(&run))
            n = find_number(&run, &kind);
        if (n > 0) {
            out->count[kind]++;
            i = run.end[n - 1];
            continue;
        }
        while (i < text.len && is_word(text.ptr[i])) /* the rest of this word */
            i++;
    }
}
