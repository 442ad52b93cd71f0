#include "shim/real/host_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "config/lock.h"
#include "shim/real/real.h"

/* What has no pointer in its first words is numbers, whose reading would cost each launch more than 10 us. */
enum { FIRST_WORDS = 512, MOST_WORDS = 8192, NO_DEVICE = -1 };

typedef struct piece {
    uint64_t start, end;
    CUcontext context;
    CUdevice device; /* NO_DEVICE: none was current */
} piece_t;

_Atomic uint64_t mdnn_host_memory_low, mdnn_host_memory_high;

static mdnn_lock_t lock = MDNN_LOCK_INIT(HOST_MEMORY);
static piece_t *pieces; /* in the order of their addresses */
static size_t count, capacity;

/* ---- pieces; locked ---- */

/* The first that ends behind the address. */
static size_t place_of(uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (pieces[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void publish(void)
{
    const uint64_t high = count > 0 ? pieces[count - 1].end : 0;
    atomic_store_explicit(&mdnn_host_memory_low, count > 0 ? pieces[0].start : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&mdnn_host_memory_high, high, memory_order_relaxed);
}

static void remove_at(size_t place)
{
    count--;
    memmove(pieces + place, pieces + place + 1, (count - place) * sizeof *pieces);
}

static bool make_room(void)
{
    if (count < capacity)
        return true;
    piece_t *const grown = reallocarray(pieces, 2 * capacity + 16, sizeof *grown);
    if (!grown)
        return false;
    pieces = grown;
    capacity = 2 * capacity + 16;
    return true;
}

/* What lay there before has ended in a way that nobody saw. */
static void put(piece_t piece)
{
    size_t place = place_of(piece.start);
    while (place < count && pieces[place].start < piece.end)
        remove_at(place);
    if (!make_room())
        return; /* what a table there leads to may be missed */
    memmove(pieces + place + 1, pieces + place, (count - place) * sizeof *pieces);
    pieces[place] = piece;
    count++;
}

/* ---- begins and ends ---- */

void mdnn_host_memory_begins(const void *start, size_t bytes)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    piece_t piece = {(uintptr_t)start, (uintptr_t)start + bytes, NULL, NO_DEVICE};
    if (!start || bytes == 0 || !driver)
        return;
    (void)driver->cuCtxGetCurrent(&piece.context);
    (void)driver->cuCtxGetDevice(&piece.device);
    mdnn_lock(&lock);
    put(piece);
    publish();
    mdnn_unlock(&lock);
}

size_t mdnn_host_memory_ends(const void *start)
{
    size_t bytes = 0;
    mdnn_lock(&lock);
    const size_t place = place_of((uintptr_t)start);
    if (place < count && pieces[place].start == (uintptr_t)start) {
        bytes = pieces[place].end - pieces[place].start;
        remove_at(place);
    }
    publish();
    mdnn_unlock(&lock);
    return bytes;
}

/* Those of the context, or of the device. */
static void end_all_of(CUcontext context, CUdevice device)
{
    mdnn_lock(&lock);
    for (size_t i = count; i > 0; i--)
        if ((context && pieces[i - 1].context == context) ||
            (device != NO_DEVICE && pieces[i - 1].device == device))
            remove_at(i - 1);
    publish();
    mdnn_unlock(&lock);
}

void mdnn_host_memory_context_ends(CUcontext context)
{
    end_all_of(context, NO_DEVICE);
}

void mdnn_host_memory_device_ends(CUdevice device)
{
    end_all_of(NULL, device);
}

/* ---- questions ---- */

/* Locked. NULL: there is none. */
static const piece_t *piece_around(uint64_t address)
{
    const size_t place = place_of(address);
    return place < count && pieces[place].start <= address ? &pieces[place] : NULL;
}

bool mdnn_host_memory_find(uint64_t address, uint64_t *start, uint64_t *end)
{
    mdnn_lock(&lock);
    const piece_t *const piece = piece_around(address);
    *start = piece ? piece->start : 0;
    *end = piece ? piece->end : 0;
    mdnn_unlock(&lock);
    return piece != NULL;
}

/* Through the kernel, since the program may have unmapped a part or forbidden to read it. Where that is not allowed, as
 * in some containers, it is read here. */
uint64_t mdnn_host_memory_read(uint64_t *words, uint64_t address, uint64_t wanted)
{
    const int error = errno;
    uint64_t bytes = wanted * sizeof *words;
    const struct iovec to = {words, bytes};
    struct iovec from = {.iov_len = bytes};
    memcpy(&from.iov_base, &address, sizeof address);
    const ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (got < 0 && (errno == EPERM || errno == ENOSYS))
        memcpy(words, from.iov_base, bytes);
    else
        bytes = got > 0 ? (uint64_t)got : 0;
    errno = error;
    return bytes / sizeof *words;
}

/* Locked. */
static uint64_t read_from(uint64_t address, uint64_t end, bool (*is_one)(uint64_t word),
                          mdnn_address_list_t *list)
{
    uint64_t words[FIRST_WORDS], at = (address + 7) / 8 * 8, read = 0;
    const size_t before = list->count;
    while (read < MOST_WORDS && at + sizeof *words <= end) {
        const uint64_t left = (end - at) / sizeof *words;
        const uint64_t wanted = left < FIRST_WORDS ? left : FIRST_WORDS;
        const uint64_t came = mdnn_host_memory_read(words, at, wanted);
        for (uint64_t i = 0; i < came; i++)
            if (is_one(words[i]))
                mdnn_address_list_add(list, words[i]);
        at += came * sizeof *words;
        read += came;
        if (came < wanted || list->count == before)
            break;
    }
    return at;
}

uint64_t mdnn_host_memory_words(uint64_t address, bool (*is_one)(uint64_t word),
                                mdnn_address_list_t *list)
{
    mdnn_lock(&lock);
    const piece_t *const piece = piece_around(address);
    const uint64_t end = piece ? read_from(address, piece->end, is_one, list) : address;
    mdnn_unlock(&lock);
    return end;
}
