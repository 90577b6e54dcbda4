/* Order and look-up of point ids, class ids and permits; their spellings.
 *
 * UUIDs: the forms that the contract names, 32 hex digits alone, with hyphens
 * (8-4-4-4-12), in braces, or behind "urn:uuid:". */
#include "base.h"

int bw_point_id_cmp(const bw_point_id *a, const bw_point_id *b)
{
    if (a->is_uuid != b->is_uuid)
        return a->is_uuid < b->is_uuid ? -1 : 1;
    if (a->hi != b->hi)
        return a->hi < b->hi ? -1 : 1;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

int bw_class_id_cmp(const bw_class_id *a, const bw_class_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

bool bw_permit_has(const bw_permit *permit, const bw_class_id *id)
{
    size_t low = 0, high = permit->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = bw_class_id_cmp(&permit->classes[mid], id);
        if (c == 0)
            return true;
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

int bw_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool bw_uuid_parse(bw_str s, bw_point_id *out)
{
    if (s.len == 45 && memcmp(s.ptr, "urn:uuid:", 9) == 0)
        s = (bw_str){s.ptr + 9, 36};
    else if (s.len == 38 && s.ptr[0] == '{' && s.ptr[37] == '}')
        s = (bw_str){s.ptr + 1, 36};
    if (s.len != 32 && s.len != 36)
        return false;
    uint64_t half[2] = {0, 0};
    size_t digits = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.len == 36 && (i == 8 || i == 13 || i == 18 || i == 23)) {
            if (s.ptr[i] != '-')
                return false;
            continue;
        }
        int d = bw_hex_digit(s.ptr[i]);
        if (d < 0)
            return false;
        half[digits / 16] = half[digits / 16] << 4 | (uint64_t)d;
        digits++;
    }
    assert(digits == 32);
    *out = (bw_point_id){half[0], half[1], 1, 0};
    return true;
}

static const char hex[] = "0123456789abcdef";

void bw_uuid_format(const bw_point_id *id, char out[BW_UUID_TEXT + 1])
{
    size_t digit = 0;
    for (size_t i = 0; i < BW_UUID_TEXT; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            out[i] = '-';
            continue;
        }
        uint64_t half = digit < 16 ? id->hi : id->lo;
        out[i] = hex[half >> (60 - digit % 16 * 4) & 15];
        digit++;
    }
    out[BW_UUID_TEXT] = 0;
}

void bw_class_id_hex(const bw_class_id *id, char out[BW_CLASS_TEXT + 1])
{
    for (size_t i = 0; i < sizeof id->bytes; i++) {
        out[2 * i] = hex[id->bytes[i] >> 4];
        out[2 * i + 1] = hex[id->bytes[i] & 15];
    }
    out[BW_CLASS_TEXT] = 0;
}

void bw_u64_hex(uint64_t v, char out[17])
{
    for (int i = 16; i-- > 0; v >>= 4)
        out[i] = hex[v & 15];
    out[16] = 0;
}

bool bw_class_id_parse(bw_str text, bw_class_id *out)
{
    if (text.len != BW_CLASS_TEXT)
        return false;
    bw_class_id id;
    for (size_t i = 0; i < sizeof id.bytes; i++) {
        int high = bw_hex_digit(text.ptr[2 * i]), low = bw_hex_digit(text.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        id.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *out = id;
    return true;
}
