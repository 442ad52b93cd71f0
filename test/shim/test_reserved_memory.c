/* Memory that the driver holds for pools, alone: with a driver and a budget of the test's own. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "shim/real/driver_queries.h"
#include "shim/vmem/reserved_memory.h"
#include "shim/vmem/virtual_aside.h"

static const CUdevice device = 3;
static CUmemoryPool const pool = (CUmemoryPool)(uintptr_t)0x1000;

static struct {
    uint64_t reserved, used, aside;
    atomic_int questions;  /* under way */
    atomic_bool held_back; /* those of the other thread do not end while it is set */
    atomic_bool destroyed;
    atomic_int late; /* questions of a pool that is no more */
} driver;

static _Thread_local bool is_other;

static void rest(void)
{
    static const struct timespec pause = {0, 1000000};
    (void)nanosleep(&pause, NULL);
}

static CUresult get_attribute(CUmemoryPool asked, CUmemPool_attribute attribute, void *value)
{
    assert_ptr_equal(asked, pool);
    atomic_fetch_add(&driver.questions, 1);
    while (is_other && atomic_load(&driver.held_back))
        rest();
    if (atomic_load(&driver.destroyed))
        atomic_fetch_add(&driver.late, 1);
    *(cuuint64_t *)value =
        attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? driver.used : driver.reserved;
    atomic_fetch_sub(&driver.questions, 1);
    return CUDA_SUCCESS;
}

const mdnn_driver_queries_t *mdnn_driver_queries(void)
{
    static const mdnn_driver_queries_t queries = {.cuMemPoolGetAttribute = get_attribute};
    return &queries;
}

CUresult mdnn_virtual_set_aside(CUdevice of, uint64_t bytes, mdnn_aside_kind_t kind, bool quiet)
{
    (void)kind, (void)quiet;
    assert_int_equal(of, device);
    driver.aside += bytes;
    return CUDA_SUCCESS;
}

void mdnn_virtual_set_aside_all_the_same(CUdevice of, uint64_t bytes)
{
    (void)mdnn_virtual_set_aside(of, bytes, MDNN_ASIDE_EXACT, true);
}

void mdnn_virtual_give_back(CUdevice of, uint64_t bytes, mdnn_aside_kind_t kind)
{
    (void)kind;
    assert_int_equal(of, device);
    assert_true(bytes <= driver.aside);
    driver.aside -= bytes;
}

static int create_pool(void **state)
{
    (void)state;
    memset(&driver, 0, sizeof driver);
    mdnn_reserved_pool_created(pool, device);
    return 0;
}

static void destroy_pool(bool succeeds)
{
    mdnn_reserved_t *const reserved = mdnn_reserved_pool_ends(pool);
    assert_non_null(reserved);
    if (succeeds)
        atomic_store(&driver.destroyed, true);
    mdnn_reserved_pool_ended(reserved, succeeds);
}

static void what_a_pool_has_counts_and_goes_with_it(void **state)
{
    (void)state;
    driver.reserved = driver.used = 5 << 20;
    mdnn_reserved_settle_all();
    assert_int_equal(driver.aside, 5 << 20);
    driver.reserved = driver.used = 0;
    destroy_pool(true);
    assert_int_equal(driver.aside, 0);
}

/* What a call had asked for when the device was reset is not asked for any more. */
static void a_reset_beside_a_call_ends_what_it_asked_for(void **state)
{
    mdnn_reserved_t *const reserved = mdnn_reserved_of_pool(pool, device);
    uint64_t growth;
    (void)state;
    assert_int_equal(mdnn_reserved_begin(reserved, 1 << 20, &growth), CUDA_SUCCESS);
    mdnn_reserved_device_ends(device);
    driver.aside = 0; /* of another budget */
    assert_true(mdnn_reserved_end(reserved, growth));
    assert_int_equal(driver.aside, 0);
    driver.reserved = driver.used = 5 << 20;
    mdnn_reserved_settle_all();
    assert_int_equal(driver.aside, 5 << 20);
    driver.reserved = driver.used = 0;
    destroy_pool(true);
}

static void a_pool_that_could_not_be_destroyed_is_asked_again(void **state)
{
    (void)state;
    destroy_pool(false);
    driver.reserved = driver.used = 1 << 20;
    mdnn_reserved_settle_all();
    assert_int_equal(driver.aside, 1 << 20);
    driver.reserved = driver.used = 0;
    destroy_pool(true);
}

static void *settle_all(void *unused)
{
    is_other = true;
    mdnn_reserved_settle_all();
    return unused;
}

/* Lets the question go on after a while, within which who does not wait for it would have gone on. */
static void *release(void *unused)
{
    for (int i = 0; i < 200 && !atomic_load(&driver.destroyed); i++)
        rest();
    atomic_store(&driver.held_back, false);
    return unused;
}

static void who_destroys_a_pool_waits_for_who_asks_of_it(void **state)
{
    (void)state;
    pthread_t asks, releases;
    mdnn_reserved_t *const reserved = mdnn_reserved_of_pool(pool, device);
    assert_non_null(reserved);
    atomic_store(&driver.held_back, true);
    assert_int_equal(pthread_create(&asks, NULL, settle_all, NULL), 0);
    while (atomic_load(&driver.questions) == 0)
        rest();
    assert_int_equal(pthread_create(&releases, NULL, release, NULL), 0);
    destroy_pool(true);
    assert_int_equal(pthread_join(asks, NULL), 0);
    assert_int_equal(pthread_join(releases, NULL), 0);
    assert_int_equal(atomic_load(&driver.late), 0);
    mdnn_reserved_settle_all();
    assert_int_equal(atomic_load(&driver.late), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_a_pool_has_counts_and_goes_with_it, create_pool),
        cmocka_unit_test_setup(a_reset_beside_a_call_ends_what_it_asked_for, create_pool),
        cmocka_unit_test_setup(a_pool_that_could_not_be_destroyed_is_asked_again, create_pool),
        cmocka_unit_test_setup(who_destroys_a_pool_waits_for_who_asks_of_it, create_pool),
    };
    return cmocka_run_group_tests_name("reserved memory", tests, NULL, NULL);
}
