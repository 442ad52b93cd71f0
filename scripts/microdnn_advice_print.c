/* Advice as a table and as JSON. */
#include <inttypes.h>
#include <string.h>

#include "config/numbers.h"
#include "config/text_output.h"
#include "scripts/microdnn_advice.h"

static const char *const arithmetic_names[TOOL_ARITHMETIC_COUNT] = {"fp32", "TF32", "fp16"};
static const char *const verdicts[MDNN_VERDICT_COUNT] = {"fits", "needs more", "host limit",
                                                         "below the floor"};

typedef struct size_text {
    char text[MDNN_NUMBER_BYTES];
} size_text_t;

static size_text_t size_of(uint64_t bytes)
{
    size_text_t size;
    mdnn_format_size_rounded(bytes, size.text, sizeof size.text);
    return size;
}

static double slowdown_percent(const tool_advice_row_t *row)
{
    const double percent = row->compute_ms > 0 ? 100 * (row->ms / row->compute_ms - 1) : 0;
    return percent > -0.5 && percent <= 0 ? 0 : percent; /* not "-0 %" */
}

/* ---- the table ---- */

static void print_batches(const tool_advice_t *advice, const tool_advice_row_t *row, FILE *out)
{
    const uint32_t batches[] = {row->batch_largest, row->batch_smooth};
    for (size_t i = 0; advice->batch > 0 && i < 2; i++)
        if (batches[i] > 0)
            fprintf(out, " %8" PRIu32, batches[i]);
        else
            fprintf(out, " %8s", "-");
    fputc('\n', out);
}

static void print_head(const tool_advice_t *advice, const char *first, FILE *out)
{
    fprintf(out, "%10s %10s %9s %10s %10s %10s", first, "ms", "moves", "bound ms", "out", "pinned");
    if (advice->batch > 0)
        fprintf(out, " %8s %8s", "images", "smooth");
    fputc('\n', out);
}

static void print_row(const tool_advice_t *advice, const tool_advice_row_t *row, FILE *out)
{
    fprintf(out, "%10s", size_of(row->budget_bytes).text);
    if (row->verdict == MDNN_VERDICT_FITS)
        fprintf(out, " %10.1f %+7.0f %% %10.1f %10s %10s", row->ms, slowdown_percent(row),
                row->bound_ms, size_of(row->out_bytes).text, size_of(row->host_bytes).text);
    else
        fprintf(out, " %10s %9s %10s %10s %10s", "-", "-", "-", "-", "-");
    print_batches(advice, row, out);
}

static void print_own_rows(const tool_advice_t *advice, FILE *out)
{
    print_head(advice, "budget", out);
    for (size_t i = 0; i < advice->count; i++)
        if (!advice->rows[i].gpu)
            print_row(advice, &advice->rows[i], out);
}

static bool has_others(const tool_advice_t *advice)
{
    for (size_t i = 0; i < advice->count; i++)
        if (advice->rows[i].gpu)
            return true;
    return false;
}

static void print_other_rows(const tool_advice_t *advice, FILE *out)
{
    fprintf(out,
            "\nOther GPUs with all of their memory: estimates from the peak rates of their %s "
            "arithmetic,\nmemory and link.\n%-24s %-10s %10s ",
            arithmetic_names[advice->arithmetic], "GPU", "link", "alone ms");
    print_head(advice, "budget", out);
    for (size_t i = 0; i < advice->count; i++) {
        const tool_advice_row_t *const row = &advice->rows[i];
        if (!row->gpu)
            continue;
        fprintf(out, "%-24s PCIe %d x%-2d %10.1f ", row->gpu->name, row->gpu->generation,
                row->gpu->lanes, row->compute_ms);
        print_row(advice, row, out);
    }
}

static void print_legend(const tool_advice_t *advice, FILE *out)
{
    fputs("\nms: predicted for an iteration; moves: what they add; bound: no schedule of moves is "
          "faster.\n",
          out);
    fprintf(out,
            "-: some operation needs more (%s here); the program runs, with a part of that in host "
            "memory.\n",
            size_of(advice->floor_bytes).text);
    if (advice->batch > 0)
        fputs("images: the largest batch of which every operation fits; smooth: the largest one "
              "that leaves room\nfor moves behind the computation (moDNN, equation 8).\n",
              out);
}

void tool_advice_print_table(const tool_advice_t *advice, FILE *out)
{
    const mdnn_run_record_t *const record = advice->record;
    mdnn_print_plain(record->program, out);
    fputs(" on ", out);
    mdnn_print_plain(record->device_name[0] != '\0' ? record->device_name : "a GPU", out);
    fprintf(out, "%s: an iteration of %" PRIu32 " operations takes %.1f ms in %s or more\n",
            record->simulated && !strstr(record->device_name, "simulated") ? " (simulated)" : "",
            record->period.operation_count, advice->compute_ms, size_of(advice->peak_bytes).text);
    if (advice->batch > 0)
        fprintf(out, "with batches of %" PRIu32 " images\n", advice->batch);
    fputc('\n', out);
    print_own_rows(advice, out);
    if (has_others(advice))
        print_other_rows(advice, out);
    print_legend(advice, out);
}

/* ---- JSON ---- */

static void print_json_bytes(const char *name, uint64_t bytes, FILE *out)
{
    fprintf(out, ", \"%s\": %" PRIu64, name, bytes);
}

static void print_json_plan(const tool_advice_row_t *row, FILE *out)
{
    mdnn_print_json_ms("ms", row->ms, out);
    mdnn_print_json_ms("bound_ms", row->bound_ms, out);
    mdnn_print_json_ms("wait_ms", row->wait_ms, out);
    print_json_bytes("out_bytes", row->out_bytes, out);
    print_json_bytes("in_bytes", row->in_bytes, out);
    print_json_bytes("host_bytes", row->host_bytes, out);
}

static void print_json_row(const tool_advice_t *advice, const tool_advice_row_t *row, FILE *out)
{
    fputs("{\"gpu\": ", out);
    if (row->gpu) {
        mdnn_print_json_text(row->gpu->name, out);
        fprintf(out, ", \"pcie\": %d, \"lanes\": %d", row->gpu->generation, row->gpu->lanes);
    } else {
        fputs("null", out);
    }
    print_json_bytes("budget_bytes", row->budget_bytes, out);
    fprintf(out, ", \"verdict\": \"%s\"", verdicts[row->verdict]);
    print_json_bytes("needed_bytes", row->needed_bytes, out);
    mdnn_print_json_ms("compute_ms", row->compute_ms, out);
    if (row->verdict == MDNN_VERDICT_FITS)
        print_json_plan(row, out);
    if (advice->batch > 0)
        fprintf(out, ", \"images\": %" PRIu32 ", \"smooth_images\": %" PRIu32, row->batch_largest,
                row->batch_smooth);
    fputc('}', out);
}

static void print_json_link(const mdnn_link_t *link, FILE *out)
{
    fprintf(out,
            " \"link_bytes_per_us\": {\"out\": %.0f, \"in\": %.0f, \"out_duplex\": %.0f, "
            "\"in_duplex\": %.0f}",
            link->out_bytes_per_us, link->in_bytes_per_us, link->out_duplex_bytes_per_us,
            link->in_duplex_bytes_per_us);
}

static void print_json_head(const tool_advice_t *advice, FILE *out)
{
    const mdnn_run_record_t *const record = advice->record;
    fputs("{\"microdnn_advice\": 1,\n \"program\": ", out);
    mdnn_print_json_text(record->program, out);
    fputs(", \"device_name\": ", out);
    mdnn_print_json_text(record->device_name, out);
    fprintf(out, ", \"device\": %d, \"simulated\": %s,\n \"operations\": %" PRIu32, record->device,
            record->simulated ? "true" : "false", record->period.operation_count);
    print_json_bytes("budget_bytes", record->budget_bytes, out);
    print_json_bytes("total_bytes", record->total_bytes, out);
    print_json_bytes("own_bytes", advice->own_bytes, out);
    print_json_bytes("peak_bytes", advice->peak_bytes, out);
    print_json_bytes("floor_bytes", advice->floor_bytes, out);
    mdnn_print_json_ms("compute_ms", advice->compute_ms, out);
    mdnn_print_json_ms("scale", advice->scale, out);
    fputs(",\n", out);
    print_json_link(&record->link, out);
    if (advice->batch > 0)
        fprintf(out, ", \"batch\": %" PRIu32, advice->batch);
    fprintf(out, ", \"arithmetic\": \"%s\",\n \"rows\": [", arithmetic_names[advice->arithmetic]);
}

mdnn_status_t tool_advice_print_json(const tool_advice_t *advice, bool iteration, FILE *out)
{
    print_json_head(advice, out);
    for (size_t i = 0; i < advice->count; i++) {
        fputs(i > 0 ? ",\n  " : "\n  ", out);
        print_json_row(advice, &advice->rows[i], out);
    }
    fputs("]", out);
    if (iteration) {
        fputs(",\n \"iteration\": ", out);
        const mdnn_status_t status =
            tool_advice_print_iteration(advice, advice->record->budget_bytes, out);
        if (status == MDNN_STATUS_NOT_FOUND)
            fputs("null", out);
        else if (status != MDNN_STATUS_OK)
            return status;
    }
    fputs("}\n", out);
    return ferror(out) ? MDNN_STATUS_IO : MDNN_STATUS_OK;
}
