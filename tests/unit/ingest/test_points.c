/* Ids and digests of points: stable for ever, different where they must be. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ingest/points.h"

static void points__ids_depend_on_all_that_names_a_chunk(void **state)
{
    (void)state;
    bw_source s = {
        .tenant = BW_STR("acme"), .collection = BW_STR("c"), .source = BW_STR("a.txt")};
    bw_point_id first, id;
    char text[BW_UUID_TEXT + 1];
    bw_source_point_id(&s, 0, &first);
    bw_source_point_id(&s, 0, &id);
    assert_int_equal(bw_point_id_cmp(&first, &id), 0);
    bw_uuid_format(&first, text);
    assert_int_equal(text[14], '8');
    assert_non_null(strchr("89ab", text[19]));
    /* ids are on disk: a change of the recipe would orphan every ingested chunk (the
     * value was made with another program) */
    assert_string_equal(text, "8215068c-88fc-8a07-93c0-ad8915582816");
    bw_source_point_id(&s, 1, &id);
    assert_int_not_equal(bw_point_id_cmp(&first, &id), 0);
    s.class_id.bytes[31] = 1;
    bw_source_point_id(&s, 0, &id);
    assert_int_not_equal(bw_point_id_cmp(&first, &id), 0);
    s.class_id.bytes[31] = 0;
    s.collection = BW_STR("ca");
    s.source = BW_STR(".txt");
    bw_source_point_id(&s, 0,
                       &id); /* lengths are hashed, so parts do not run together */
    assert_int_not_equal(bw_point_id_cmp(&first, &id), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points__ids_depend_on_all_that_names_a_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
