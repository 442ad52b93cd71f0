#include "shim/real/host_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "config/lock.h"
#include "shim/real/real.h"

enum { PIECE_WORDS = 2048 }; /* that are read at once */

typedef struct piece {
    uint64_t start, end;
    CUcontext context;
    CUdevice device;
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
    piece_t piece = {(uintptr_t)start, (uintptr_t)start + bytes, NULL, -1};
    if (!start || bytes == 0 || !driver)
        return;
    (void)driver->cuCtxGetCurrent(&piece.context);
    (void)driver->cuCtxGetDevice(&piece.device);
    mdnn_lock(&lock);
    put(piece);
    publish();
    mdnn_unlock(&lock);
}

void mdnn_host_memory_ends(const void *start)
{
    mdnn_lock(&lock);
    const size_t place = place_of((uintptr_t)start);
    if (place < count && pieces[place].start == (uintptr_t)start)
        remove_at(place);
    publish();
    mdnn_unlock(&lock);
}

void mdnn_host_memory_context_ends(CUcontext context)
{
    mdnn_lock(&lock);
    for (size_t i = count; i > 0; i--)
        if (pieces[i - 1].context == context)
            remove_at(i - 1);
    publish();
    mdnn_unlock(&lock);
}

void mdnn_host_memory_device_ends(CUdevice device)
{
    mdnn_lock(&lock);
    for (size_t i = count; i > 0; i--)
        if (pieces[i - 1].device == device)
            remove_at(i - 1);
    publish();
    mdnn_unlock(&lock);
}

/* ---- words ---- */

/* Through the kernel, since the program may have unmapped a part or forbidden to read it; how many came. Where that is
 * not allowed, as in some containers, it is read here. */
static uint64_t read_words(uint64_t *words, uint64_t address, uint64_t bytes)
{
    const struct iovec to = {words, bytes};
    struct iovec from = {.iov_len = bytes};
    memcpy(&from.iov_base, &address, sizeof address);
    const ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (got < 0 && (errno == EPERM || errno == ENOSYS))
        memcpy(words, from.iov_base, bytes);
    else
        bytes = got > 0 ? (uint64_t)got : 0;
    return bytes / sizeof *words;
}

void mdnn_host_memory_words(uint64_t address, size_t bytes,
                            void (*visit)(void *context, uint64_t word), void *context)
{
    mdnn_lock(&lock);
    const size_t place = place_of(address);
    const bool found = place < count && pieces[place].start <= address;
    const uint64_t there = found ? pieces[place].end - address : 0;
    const uint64_t end = address + (there < bytes ? there : bytes);
    const int error = errno;
    uint64_t words[PIECE_WORDS], came = PIECE_WORDS;
    for (uint64_t at = (address + 7) / 8 * 8; came == PIECE_WORDS && at + sizeof *words <= end;
         at += sizeof words) {
        const uint64_t wanted = (end - at) / sizeof *words;
        came = read_words(words, at, (wanted < PIECE_WORDS ? wanted : PIECE_WORDS) * sizeof *words);
        for (uint64_t i = 0; i < came; i++)
            visit(context, words[i]);
    }
    errno = error;
    mdnn_unlock(&lock);
}
