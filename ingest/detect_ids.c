/* National numbers: one rule a country. A rule says how long the number is, how it is
 * usually grouped, its check, and which words must stand in front where the check alone
 * lets too many other numbers through. Checks as the issuing body publishes them; the
 * names stand at each. */
#include "detect.h"

static int digit(char c)
{
    return c - '0';
}

static int number(const char *c, size_t n)
{
    int v = 0;
    for (size_t i = 0; i < n; i++)
        v = v * 10 + digit(c[i]);
    return v;
}

static int weighted(const char *c, const int *weights, size_t n)
{
    int sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += digit(c[i]) * weights[i];
    return sum;
}

static int64_t modulo(const char *c, size_t n, int64_t m)
{
    int64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = (v * 10 + digit(c[i])) % m;
    return v;
}

static bool is_date(int month, int day)
{
    return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

/* Rijksregisternummer, Royal Decree of 3 April 1984: 97 − (first nine mod 97), with a 2
 * in front for those born from 2000 on. Months may be raised by 20 or 40 (bis number).
 */
static bool check_be(const char *c)
{
    if (!bw_detect__digits(c, 11) || !is_date(number(c + 2, 2) % 20, number(c + 4, 2)))
        return false;
    int64_t key = number(c + 9, 2), first = modulo(c, 9, 97);
    return key == 97 - first || key == 97 - (2000000000 % 97 + first) % 97;
}

/* CPF, Receita Federal: two digits by weights 10…2 and 11…2, modulo 11. */
static bool check_br(const char *c)
{
    if (!bw_detect__digits(c, 11) || strspn(c, (char[]){c[0], 0}) >= 11)
        return false;
    for (size_t n = 9; n <= 10; n++) {
        int sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += digit(c[i]) * (int)(n + 1 - i);
        if (sum * 10 % 11 % 10 != digit(c[n]))
            return false;
    }
    return true;
}

/* AHV number (AHVG art. 50c): 756 and an EAN-13 check digit. */
static bool check_ch(const char *c)
{
    if (!bw_detect__digits(c, 13) || strncmp(c, "756", 3) != 0)
        return false;
    int sum = 0;
    for (int i = 0; i < 12; i++)
        sum += digit(c[i]) * (i % 2 ? 3 : 1);
    return (10 - sum % 10) % 10 == digit(c[12]);
}

/* GB 11643-1999: date of birth and ISO 7064 MOD 11-2. */
static bool check_cn(const char *c)
{
    static const int weights[] = {7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2};
    if (!bw_detect__digits(c, 17) || c[0] == '0' || number(c + 6, 4) < 1850 ||
        number(c + 6, 4) > 2100 || !is_date(number(c + 10, 2), number(c + 12, 2)))
        return false;
    return "10X98765432"[weighted(c, weights, 17) % 11] == c[17];
}

/* Identifikationsnummer, § 139b AO: ISO 7064 MOD 11,10; of the first ten digits one is
 * there twice or three times, at least one is missing. */
static bool check_de(const char *c)
{
    if (!bw_detect__digits(c, 11) || c[0] == '0')
        return false;
    int seen[10] = {0}, twice = 0, more = 0, product = 10;
    for (int i = 0; i < 10; i++)
        seen[digit(c[i])]++;
    for (int i = 0; i < 10; i++) {
        twice += seen[i] == 2 || seen[i] == 3;
        more += seen[i] > 3;
    }
    if (twice != 1 || more)
        return false;
    for (int i = 0; i < 10; i++) {
        int sum = (digit(c[i]) + product) % 10;
        product = (sum ? sum : 10) * 2 % 11;
    }
    return (11 - product) % 10 == digit(c[10]);
}

/* DNI and NIE, Ministerio del Interior: the letter is the number modulo 23. */
static bool check_es(const char *c)
{
    int lead = c[0] == 'X' ? 0 : c[0] == 'Y' ? 1 : c[0] == 'Z' ? 2 : -1;
    if (lead < 0 && !(c[0] >= '0' && c[0] <= '9'))
        return false;
    if (!bw_detect__digits(c + 1, 7))
        return false;
    int value = (lead < 0 ? digit(c[0]) : lead) * 10000000 + number(c + 1, 7);
    return value > 0 && "TRWAGMYFPDXBNJZSQVHLCKE"[value % 23] == c[8];
}

/* Henkilötunnus, DVV: the sign of the century is a hyphen (a separator here) or a
 * letter. */
static bool fi_rest(const char *c, size_t serial)
{
    char nine[10];
    memcpy(nine, c, 6);
    memcpy(nine + 6, c + serial, 3);
    nine[9] = 0;
    return bw_detect__digits(nine, 9) && is_date(number(c + 2, 2), number(c, 2)) &&
           number(c + serial, 3) >= 2 &&
           "0123456789ABCDEFHJKLMNPRSTUVWXY"[number(nine, 9) % 31] == c[serial + 3];
}
static bool check_fi(const char *c)
{
    return fi_rest(c, 6);
}
static bool check_fi_letter(const char *c)
{
    return c[6] && strchr("ABCDEFYXWVU", c[6]) && fi_rest(c, 7);
}

/* NIR, INSEE: 97 − (thirteen digits modulo 97); 2A and 2B (Corsica) count as 19 and 18.
 */
static bool check_fr(const char *c)
{
    char d[16];
    memcpy(d, c, 15);
    d[15] = 0;
    if (d[5] == '2' && (d[6] == 'A' || d[6] == 'B')) {
        d[5] = '1';
        d[6] = d[6] == 'A' ? '9' : '8';
    }
    if (!bw_detect__digits(d, 15) || !strchr("123478", d[0]))
        return false;
    int month = number(d + 3, 2);
    if (!((month >= 1 && month <= 12) || (month >= 20 && month <= 42) || month >= 50))
        return false;
    return number(d + 13, 2) == 97 - modulo(d, 13, 97);
}

/* NHS number, NHS Data Dictionary: weights 10…2, modulo 11. */
static bool check_gb(const char *c)
{
    static const int weights[] = {10, 9, 8, 7, 6, 5, 4, 3, 2};
    return bw_detect__digits(c, 10) &&
           (11 - weighted(c, weights, 9) % 11) % 11 == digit(c[9]);
}

/* Aadhaar, UIDAI: never begins with 0 or 1; Verhoeff's check (Verhoeff 1969). Its table
 * is the dihedral group of order ten, computed here. */
static bool check_in(const char *c)
{
    static const int step[] = {1, 5, 7, 6, 2, 8, 3, 0, 9, 4};
    if (!bw_detect__digits(c, 12) || c[0] < '2')
        return false;
    int sum = 0;
    for (int i = 0; i < 12; i++) {
        int v = digit(c[11 - i]);
        for (int k = 0; k < i % 8; k++)
            v = step[v];
        int low = (sum % 5 + (sum < 5 ? v : 10 - v)) % 5;
        sum = low + ((sum < 5) == (v < 5) ? 0 : 5);
    }
    return sum == 0;
}

/* Codice fiscale, D.M. 12 March 1974: odd places by a table, even places as they are,
 * modulo 26; L…V stand for digits where two persons would share a code. */
static bool check_it(const char *c)
{
    static const int odd[] = {1,  0,  5, 7, 9, 13, 15, 17, 19, 21, 2,  4,  18,
                              20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23};
    for (int i = 0; i < 16; i++) {
        bool wants_letter = i < 6 || i == 8 || i == 11 || i == 15;
        bool letter = c[i] >= 'A' && c[i] <= 'Z';
        if (letter ? !wants_letter && !strchr("LMNPQRSTUV", c[i]) : wants_letter)
            return false;
    }
    if (!strchr("ABCDEHLMPRST", c[8]))
        return false;
    int sum = 0;
    for (int i = 0; i < 15; i++) {
        int v = c[i] >= 'A' ? c[i] - 'A' : digit(c[i]);
        sum += i % 2 ? v : odd[v];
    }
    return 'A' + sum % 26 == c[15];
}

/* BSN, Wet algemene bepalingen burgerservicenummer: 9…2 and −1, modulo 11. */
static bool check_nl(const char *c)
{
    static const int weights[] = {9, 8, 7, 6, 5, 4, 3, 2, -1};
    return bw_detect__digits(c, 9) && number(c, 9) > 0 &&
           weighted(c, weights, 9) % 11 == 0;
}

/* PESEL, Ustawa o ewidencji ludności: weights 1 3 7 9; the century is in the month. */
static bool check_pl(const char *c)
{
    static const int weights[] = {1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1};
    return bw_detect__digits(c, 11) &&
           is_date(number(c + 2, 2) % 20, number(c + 4, 2)) &&
           weighted(c, weights, 11) % 10 == 0;
}

/* NIF, Decreto-Lei 463/79: weights 9…2, modulo 11. */
static bool check_pt(const char *c)
{
    static const int weights[] = {9, 8, 7, 6, 5, 4, 3, 2};
    if (!bw_detect__digits(c, 9) || !strchr("12356", c[0]))
        return false;
    int check = 11 - weighted(c, weights, 8) % 11;
    return (check > 9 ? 0 : check) == digit(c[8]);
}

/* Personnummer, Skatteverket: a date (day + 60 for a coordination number), Luhn. */
static bool check_se(const char *c)
{
    if (!bw_detect__digits(c, 10) || !is_date(number(c + 2, 2), number(c + 4, 2) % 60))
        return false;
    int sum = 0;
    for (int i = 0; i < 10; i++) {
        int v = digit(c[i]) * (i % 2 ? 1 : 2);
        sum += v / 10 + v % 10;
    }
    return sum % 10 == 0;
}
static bool check_se_long(const char *c)
{
    return (strncmp(c, "19", 2) == 0 || strncmp(c, "20", 2) == 0) && check_se(c + 2);
}

/* SSN, SSA: no area 000, 666 or 900 and above, no group 00, no serial 0000. */
static bool check_us(const char *c)
{
    return bw_detect__digits(c, 9) && strncmp(c, "000", 3) != 0 &&
           strncmp(c, "666", 3) != 0 && c[0] != '9' && number(c + 3, 2) > 0 &&
           number(c + 5, 4) > 0;
}

static const struct rule {
    bw_detect_kind kind;
    size_t len;
    bool (*check)(const char *c);
    const char *groups[2]; /* usual groupings, enough without a word in front */
    const char *words;     /* else one of these is in front */
} rules[] = {
    {BW_DETECT_ID_FR, 15, check_fr, {"15", "1?2?2?2?3?3?2"}, ""},
    {BW_DETECT_ID_IT, 16, check_it, {"16", "3 3 5 5"}, ""},
    {BW_DETECT_ID_CN, 18, check_cn, {"18"}, ""},
    {BW_DETECT_ID_CH, 13, check_ch, {"13", "3?4?4?2"}, ""},
    {BW_DETECT_ID_FI, 11, check_fi_letter, {"11"}, ""},
    {BW_DETECT_ID_FI, 10, check_fi, {"6-4"}, ""},
    {BW_DETECT_ID_SE, 12, check_se_long, {"8-4"}, "personnummer personnr "},
    {BW_DETECT_ID_SE, 10, check_se, {"6-4"}, "personnummer personnr "},
    {BW_DETECT_ID_BE,
     11,
     check_be,
     {"2.2.2-3.2", "6-3.2"},
     "rijksregister rijksregisternummer registre national niss insz nrn "},
    {BW_DETECT_ID_BR, 11, check_br, {"3.3.3-2"}, "cpf "},
    {BW_DETECT_ID_DE,
     11,
     check_de,
     {"2 3 3 3"},
     "idnr steuer steuerid identifikationsnummer steueridentifikationsnummer tin "},
    {BW_DETECT_ID_PL, 11, check_pl, {NULL}, "pesel "},
    {BW_DETECT_ID_IN, 12, check_in, {"4 4 4", "4-4-4"}, "aadhaar aadhar uidai "},
    {BW_DETECT_ID_GB, 10, check_gb, {NULL}, "nhs "},
    {BW_DETECT_ID_ES, 9, check_es, {"9", "8-1"}, "dni nie nif "},
    {BW_DETECT_ID_US, 9, check_us, {"3-2-4"}, "ssn security "},
    {BW_DETECT_ID_NL, 9, check_nl, {NULL}, "bsn burgerservicenummer sofinummer "},
    {BW_DETECT_ID_PT, 9, check_pt, {NULL}, "nif contribuinte "},
};

size_t bw_detect__id(const bw_detect__run *r, bw_detect_kind *kind)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct rule *u = &rules[i];
        if (r->n < u->len || !bw_detect__ends(r, u->len) || !u->check(r->c))
            continue;
        bool usual = false;
        for (int g = 0; g < 2 && u->groups[g]; g++)
            usual = usual || bw_detect__grouped(r, u->len, u->groups[g]);
        if (usual || bw_detect__told(r, u->words)) {
            *kind = u->kind;
            return u->len;
        }
    }
    return 0;
}
