#include "shim/device/memory_device_internal.h"

#include <stdlib.h>

/* ---- aliases ---- */

CUdeviceptr mdnn_device_chunk_alias(const mdnn_device_memory_t *memory, uint64_t chunk)
{
    return memory->aliases + (chunk - 1) * memory->config.chunk_bytes;
}

static mdnn_status_t map_handle(const mdnn_device_memory_t *memory, CUdeviceptr address,
                                CUmemGenericAllocationHandle handle, size_t access_count)
{
    return mdnn_failure_note(mdnn_device_map_handle(memory, address, handle, access_count));
}

mdnn_status_t mdnn_device_have_alias(mdnn_device_memory_t *memory, uint64_t chunk)
{
    if (memory->states[chunk - 1] == MDNN_CHUNK_THERE)
        return MDNN_STATUS_OK;
    MDNN_TRY(
        map_handle(memory, mdnn_device_chunk_alias(memory, chunk), memory->chunks[chunk - 1], 1));
    memory->states[chunk - 1] = MDNN_CHUNK_THERE;
    return MDNN_STATUS_OK;
}

/* ---- chunks ---- */

/* false: there is none. */
static bool take_left_over(mdnn_device_memory_t *memory, uint64_t *chunk)
{
    if (memory->left_over == 0 ||
        mdnn_device_have_alias(memory, memory->left_over) != MDNN_STATUS_OK)
        return false;
    *chunk = memory->left_over;
    memory->left_over = 0;
    return true;
}

mdnn_status_t mdnn_device_create_chunk(void *context, uint64_t *chunk)
{
    mdnn_device_memory_t *const memory = context;
    const mdnn_driver_t *const driver = memory->config.driver;
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = memory->config.device}};
    CUmemGenericAllocationHandle handle;
    size_t place = 0;
    if (take_left_over(memory, chunk))
        return MDNN_STATUS_OK;
    while (place < memory->chunk_count && memory->states[place] != MDNN_CHUNK_NONE)
        place++;
    if (place == memory->chunk_capacity)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY; /* as many as the budget has */
    MDNN_TRY(mdnn_failure_note(
        driver->cuMemCreate(&handle, memory->config.chunk_bytes, &properties, 0)));
    const mdnn_status_t status =
        map_handle(memory, mdnn_device_chunk_alias(memory, place + 1), handle, 1);
    if (status != MDNN_STATUS_OK) {
        (void)driver->cuMemRelease(handle);
        return status;
    }
    memory->chunks[place] = handle;
    memory->states[place] = MDNN_CHUNK_THERE;
    memory->chunk_count += place == memory->chunk_count;
    *chunk = place + 1;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_device_destroy_chunk(void *context, uint64_t chunk)
{
    mdnn_device_memory_t *const memory = context;
    const mdnn_driver_t *const driver = memory->config.driver;
    if (memory->states[chunk - 1] == MDNN_CHUNK_THERE)
        MDNN_TRY(mdnn_failure_note(driver->cuMemUnmap(mdnn_device_chunk_alias(memory, chunk),
                                                      memory->config.chunk_bytes)));
    memory->states[chunk - 1] = MDNN_CHUNK_WITHOUT_ALIAS;
    MDNN_TRY(mdnn_failure_note(driver->cuMemRelease(memory->chunks[chunk - 1])));
    memory->states[chunk - 1] = MDNN_CHUNK_NONE;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_device_map_chunk(void *context, uint64_t address, uint64_t chunk)
{
    mdnn_device_memory_t *const memory = context;
    mdnn_device_turn_begin(memory->remaps);
    const mdnn_status_t status =
        map_handle(memory, address, memory->chunks[chunk - 1], memory->access_count);
    mdnn_device_turn_end(memory->remaps);
    MDNN_TRY(status);
    memory->mapped[chunk - 1] = address;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_device_unmap_chunk(void *context, uint64_t address, uint64_t chunk)
{
    mdnn_device_memory_t *const memory = context;
    mdnn_device_turn_begin(memory->remaps);
    const CUresult result = memory->config.driver->cuMemUnmap(address, memory->config.chunk_bytes);
    mdnn_device_turn_end(memory->remaps);
    MDNN_TRY(mdnn_failure_note(result));
    memory->mapped[chunk - 1] = 0;
    return MDNN_STATUS_OK;
}

static CUmemAccessDesc access_of(CUdevice device)
{
    return (CUmemAccessDesc){{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                             CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

/* ---- who may use them ---- */

mdnn_status_t mdnn_device_memory_let(mdnn_device_memory_t *memory, CUdevice peer)
{
    const mdnn_driver_t *const driver = memory->config.driver;
    const uint64_t bytes = memory->config.chunk_bytes;
    const CUmemAccessDesc access = access_of(peer);
    int can = 0;
    /* Not noted as an error: nothing of ours needs it. */
    if (driver->cuDeviceCanAccessPeer(&can, peer, memory->config.device) != CUDA_SUCCESS)
        return MDNN_STATUS_DEVICE;
    if (!can || memory->access_count > MDNN_MEMORY_PEERS)
        return MDNN_STATUS_OK;
    mdnn_device_remaps_finish(memory->remaps);
    for (size_t i = 0; i < memory->chunk_count; i++)
        if (memory->mapped[i] &&
            driver->cuMemSetAccess(memory->mapped[i], bytes, &access, 1) != CUDA_SUCCESS)
            return MDNN_STATUS_DEVICE;
    if (mdnn_pinned_pool_let(memory->slots, &access) != CUDA_SUCCESS)
        return MDNN_STATUS_DEVICE;
    memory->access[memory->access_count++] = access;
    return MDNN_STATUS_OK;
}

CUdeviceptr mdnn_device_memory_sample(const mdnn_device_memory_t *memory)
{
    for (size_t place = 0; place < memory->chunk_count; place++)
        if (memory->states[place] == MDNN_CHUNK_THERE)
            return mdnn_device_chunk_alias(memory, place + 1);
    return 0;
}

/* ---- beginning and end ---- */

static mdnn_status_t reserve_aliases(mdnn_device_memory_t *memory)
{
    const uint64_t chunk = memory->config.chunk_bytes;
    memory->alias_bytes = memory->chunk_capacity * chunk;
    const CUresult result = memory->config.driver->cuMemAddressReserve(
        &memory->aliases, memory->alias_bytes, chunk, 0, 0);
    if (result != CUDA_SUCCESS)
        memory->aliases = 0;
    return mdnn_failure_note(result);
}

mdnn_status_t mdnn_device_make_chunks(mdnn_device_memory_t *memory)
{
    const mdnn_device_memory_config_t *const config = &memory->config;
    memory->chunk_capacity = (size_t)(config->budget_bytes / config->chunk_bytes);
    memory->chunks = calloc(memory->chunk_capacity + 1, sizeof *memory->chunks);
    memory->mapped = calloc(memory->chunk_capacity + 1, sizeof *memory->mapped);
    memory->states = calloc(memory->chunk_capacity + 1, sizeof *memory->states);
    memory->access[memory->access_count++] = access_of(config->device);
    if (!memory->chunks || !memory->mapped || !memory->states || memory->chunk_capacity == 0)
        return MDNN_STATUS_OUT_OF_MEMORY;
    return reserve_aliases(memory);
}

void mdnn_device_release_chunks(mdnn_device_memory_t *memory)
{
    const mdnn_driver_t *const driver = memory->config.driver;
    for (size_t i = 0; i < memory->chunk_count; i++) {
        if (memory->mapped[i])
            (void)driver->cuMemUnmap(memory->mapped[i], memory->config.chunk_bytes);
        if (memory->states[i] == MDNN_CHUNK_THERE)
            (void)driver->cuMemUnmap(mdnn_device_chunk_alias(memory, i + 1),
                                     memory->config.chunk_bytes);
        if (memory->states[i] != MDNN_CHUNK_NONE)
            (void)driver->cuMemRelease(memory->chunks[i]);
    }
}
