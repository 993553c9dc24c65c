/* Tables of colours: what becomes of each value. */
#ifndef TOOLKIT_IMAGE_TABLE_H
#define TOOLKIT_IMAGE_TABLE_H

#include <stdint.h>

/* Of red, green and blue; a fourth channel stays. */
typedef struct {
    uint8_t of[3][256];
} img_table;

/* Make of a table the one that does what it does and then what the other does. */
static inline void img_join_tables(img_table *table, const img_table *then) {
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            table->of[c][v] = then->of[c][table->of[c][v]];
}

/* Change pixels in place: the loop of machines that have no better one. */
void img_look_up(uint8_t *rgbx, int64_t count, const img_table *table);

#endif
