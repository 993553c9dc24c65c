/* Reads a JPEG's markers: the orientation as PIL finds it, EXIF first, then XMP; and whether there is a colour profile.
 *
 * Follows JpegImagePlugin (which markers are read), Image.Exif and TiffImagePlugin.ImageFileDirectory_v2.load (which
 * entry counts, where reading stops) and Image.getexif (XMP) of Pillow 13. Damaged EXIF is no error: orientation 1.
 */
#define _GNU_SOURCE
#include "markers.h"

#include <string.h>

typedef struct {
    const uint8_t *data;
    int64_t length;
    int big; /* big-endian */
} tiff;

static uint64_t unsigned_at(const tiff *t, const uint8_t *p, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | p[t->big ? i : bytes - 1 - i];
    return value;
}

/* Bytes of one value of a TIFF type, 0 = a type that PIL skips. */
static int64_t type_size(uint64_t type) {
    static const uint8_t sizes[17] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
    return type < 17 ? sizes[type] : 0;
}

static double value_at(const tiff *t, const uint8_t *p, uint64_t type) {
    switch (type) {
    case 3:
        return (double)unsigned_at(t, p, 2);
    case 4:
    case 13:
        return (double)unsigned_at(t, p, 4);
    case 16:
        return (double)unsigned_at(t, p, 8);
    case 6:
        return (double)(int8_t)p[0];
    case 8:
        return (double)(int16_t)unsigned_at(t, p, 2);
    case 9:
        return (double)(int32_t)unsigned_at(t, p, 4);
    case 5:
    case 10: {
        int64_t a = (int64_t)unsigned_at(t, p, 4), b = (int64_t)unsigned_at(t, p + 4, 4);
        if (type == 10) {
            a = (int32_t)a;
            b = (int32_t)b;
        }
        return b == 0 ? 0.0 : (double)a / (double)b;
    }
    case 11: {
        uint32_t bits = (uint32_t)unsigned_at(t, p, 4);
        float value;
        memcpy(&value, &bits, 4);
        return value;
    }
    case 12: {
        uint64_t bits = unsigned_at(t, p, 8);
        double value;
        memcpy(&value, &bits, 8);
        return value;
    }
    default: /* bytes and text never equal a number */
        return 0.0;
    }
}

/* Returns 1 when the Orientation tag is there, and its value (0 when it is no orientation). */
static int from_exif(const uint8_t *data, int64_t length, int *orientation) {
    for (int i = 0; i < 2 && length >= 6 && memcmp(data, "Exif\0\0", 6) == 0; i++) {
        data += 6;
        length -= 6;
    }
    tiff t = {data, length, 0};
    if (length < 8)
        return 0;
    if (memcmp(data, "MM\0\x2a", 4) == 0 || memcmp(data, "MM\x2a\0", 4) == 0)
        t.big = 1;
    else if (memcmp(data, "II\x2a\0", 4) != 0 && memcmp(data, "II\0\x2a", 4) != 0)
        return 0;
    int64_t at = (int64_t)unsigned_at(&t, data + 4, 4);
    if (at + 2 > length)
        return 0;
    int64_t entries = (int64_t)unsigned_at(&t, data + at, 2), total = 0;
    at += 2;
    for (int64_t i = 0; i < entries && at + 12 <= length; i++, at += 12) {
        const uint8_t *entry = data + at, *value = entry + 8;
        uint64_t type = unsigned_at(&t, entry + 2, 2);
        int64_t size = type_size(type) * (int64_t)unsigned_at(&t, entry + 4, 4);
        if (type_size(type) == 0)
            continue;
        if (size > 4) {
            int64_t offset = (int64_t)unsigned_at(&t, value, 4);
            total += size;
            if (total > length)
                continue;
            if (offset > length || size > length - offset)
                return 0;
            value = data + offset;
        }
        if (unsigned_at(&t, entry, 2) != 0x112 || size < type_size(type))
            continue;
        double number = value_at(&t, value, type);
        *orientation = number >= 1 && number <= 8 && number == (double)(int)number ? (int)number : 0;
        return 1;
    }
    return 0;
}

static int from_xmp(const uint8_t *data, int64_t length) {
    static const char key[] = "tiff:Orientation";
    const int64_t key_length = sizeof key - 1;
    const uint8_t *end = data + length, *p = data;
    while (end - p > 0 && (p = memmem(p, (size_t)(end - p), key, (size_t)key_length)) != NULL) {
        p += key_length;
        const uint8_t *digit = end - p >= 2 && memcmp(p, "=\"", 2) == 0 ? p + 2 : end - p >= 1 && *p == '>' ? p + 1 : end;
        if (digit < end && *digit >= '0' && *digit <= '9')
            return *digit - '0';
    }
    return 0;
}

/* ---- Segments before the first scan ---- */

typedef struct {
    int code;
    const uint8_t *data;
    int64_t length;
} segment;

/* The next marker segment from `*at` on. Returns 0 when there is none. */
static int next_segment(const uint8_t *data, int64_t length, int64_t *at, segment *found) {
    while (*at + 2 <= length) {
        if (data[*at] != 0xFF || data[*at + 1] == 0xFF) { /* junk between segments, padding */
            ++*at;
            continue;
        }
        int code = data[*at + 1];
        *at += 2;
        if (code == 0xDA)
            return 0;
        if (code == 0 || code == 1 || (code >= 0xD0 && code <= 0xD9)) /* markers without a segment */
            continue;
        if (*at + 2 > length)
            return 0;
        int64_t size = (int64_t)data[*at] << 8 | data[*at + 1];
        if (size < 2 || *at + size > length)
            return 0;
        *found = (segment){code, data + *at + 2, size - 2};
        *at += size;
        return 1;
    }
    return 0;
}

int img_orientation(const uint8_t *data, int64_t length) {
    static const char xmp_name[] = "http://ns.adobe.com/xap/1.0/"; /* its final zero belongs to the name */
    segment exif = {0}, xmp = {0}, found;
    int64_t at = 2;
    while (next_segment(data, length, &at, &found)) {
        if (found.code != 0xE1)
            continue;
        if (exif.data == NULL && found.length >= 6 && memcmp(found.data, "Exif\0\0", 6) == 0)
            exif = found;
        else if (found.length >= (int64_t)sizeof xmp_name && memcmp(found.data, xmp_name, sizeof xmp_name) == 0)
            xmp = (segment){0xE1, found.data + sizeof xmp_name, found.length - (int64_t)sizeof xmp_name};
    }
    int orientation = 0;
    if (exif.data == NULL || !from_exif(exif.data, exif.length, &orientation))
        orientation = xmp.data == NULL ? 0 : from_xmp(xmp.data, xmp.length);
    return orientation >= 1 && orientation <= 8 ? orientation : 1;
}

int img_has_profile(const uint8_t *data, int64_t length) {
    static const char name[] = "ICC_PROFILE"; /* its final zero belongs to the name */
    segment found;
    int64_t at = 2;
    while (next_segment(data, length, &at, &found))
        if (found.code == 0xE2 && found.length > (int64_t)sizeof name && memcmp(found.data, name, sizeof name) == 0)
            return 1;
    return 0;
}
