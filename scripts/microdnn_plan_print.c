/* A plan as table, JSON and drawings. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "config/numbers.h"
#include "scripts/microdnn_plan.h"

static const char *const directions[] = {"forward", "backward_data", "backward_filter"};

static const mdnn_configuration_t *chosen(const tool_plan_t *plan, size_t k)
{
    return mdnn_front_at(plan->kernels->at[k].set->front, plan->choices[k]);
}

void tool_plan_print_table(const tool_plan_t *plan)
{
    char size[MDNN_NUMBER_BYTES], text[160];
    printf("%s, %s: %zu kernels, model %s, sizes %s\n", plan->title, plan->device,
           plan->kernels->count, mdnn_choices_convolution_wd_model[plan->model], plan->policy);
    printf("%-32s %10s %11s  %s\n", "kernel", "ms", "workspace", "configuration");
    for (size_t k = 0; k < plan->kernels->count; k++) {
        const mdnn_configuration_t *const point = chosen(plan, k);
        mdnn_format_size_rounded(point->workspace_bytes, size, sizeof size);
        mdnn_configuration_format(point, text, sizeof text);
        printf("%-32s %10.4f %11s  %s\n", plan->kernels->at[k].name, point->time_ms, size, text);
    }
    mdnn_format_size_rounded(plan->result.workspace_bytes, size, sizeof size);
    printf("%-32s %10.4f %11s  %s, by the %s solver\n", "all", plan->result.time_ms, size,
           plan->result.optimal ? "proven best" : "not proven best", plan->solver);
    mdnn_format_size_rounded(plan->wr_limit_bytes, size, sizeof size);
    if (isfinite(plan->wr_ms))
        printf("%-32s %10.4f %11s  a kernel: %.2f times as long\n", "in equal shares (WR)",
               plan->wr_ms, size, plan->wr_ms / plan->result.time_ms);
    else
        printf("in equal shares (WR) of %s a convolution does not fit\n", size);
}

static void print_configuration(const mdnn_configuration_t *point)
{
    char text[160];
    mdnn_configuration_format(point, text, sizeof text);
    printf("{\"time_ms\": %.6f, \"workspace_bytes\": %" PRIu64 ", \"configuration\": \"%s\"}",
           point->time_ms, point->workspace_bytes, text);
}

static void print_text(const char *name, const char *text)
{
    printf("\"%s\": ", name);
    tool_print_json_text(text);
    fputs(", ", stdout);
}

void tool_plan_print_json(const tool_plan_t *plan)
{
    putchar('{');
    print_text("network", plan->title);
    print_text("device", plan->device);
    print_text("model", mdnn_choices_convolution_wd_model[plan->model]);
    print_text("policy", plan->policy);
    print_text("solver", plan->solver);
    printf("\"total_bytes\": %" PRIu64 ", \"time_ms\": %.6f, \"bound_ms\": %.6f, "
           "\"workspace_bytes\": %" PRIu64 ", \"optimal\": %s,\n",
           plan->total_bytes, plan->result.time_ms, plan->result.bound_ms,
           plan->result.workspace_bytes, plan->result.optimal ? "true" : "false");
    printf("\"equal_shares\": {\"limit_bytes\": %" PRIu64 ", \"time_ms\": ", plan->wr_limit_bytes);
    printf(isfinite(plan->wr_ms) ? "%.6f},\n\"kernels\": [\n" : "null},\n\"kernels\": [\n",
           plan->wr_ms);
    for (size_t k = 0; k < plan->kernels->count; k++) {
        const tool_kernel_t *const kernel = &plan->kernels->at[k];
        fputs(k ? ",\n{" : "{", stdout);
        print_text("name", kernel->name);
        print_text("problem", kernel->known->title);
        printf("\"group\": %" PRIu32 ", \"chosen\": ", kernel->group);
        print_configuration(chosen(plan, k));
        fputs(", \"desirable\": [", stdout);
        for (size_t i = 0; i < kernel->set->count; i++) {
            fputs(i ? ", " : "", stdout);
            print_configuration(mdnn_front_at(kernel->set->front, i));
        }
        fputs("]}", stdout);
    }
    fputs("]}\n", stdout);
}

/* ---- drawings ---- */

enum { LEFT = 70, TOP = 50, PLOT_WIDTH = 720, PLOT_HEIGHT = 360, BOTTOM = 40, TICKS = 5 };
enum { LABEL_POINTS = 11 }; /* of a letter's width sixty percent, at most */
static const char *const colours[] = {"#4477aa", "#ee6677", "#228833"}; /* of directions */

static void draw_text(FILE *out, double x, double y, const char *anchor, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (; *text != '\0'; text++)
        if (*text == '<' || *text == '&')
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
    fputs("</text>\n", out);
}

/* `below`: what labels under the plot need. */
static void begin_drawing(FILE *out, const char *title, double below)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            LEFT + PLOT_WIDTH + 30 + below / 2, TOP + PLOT_HEIGHT + BOTTOM + below);
    draw_text(out, LEFT + PLOT_WIDTH / 2.0, 22, "middle", title);
}

static double y_of(double value, double most)
{
    return TOP + PLOT_HEIGHT * (1 - value / most);
}

/* From 0 to `most` on the left. */
static void draw_scale(FILE *out, double most, const char *unit)
{
    char text[64];
    for (int i = 0; i <= TICKS; i++) {
        const double value = most * i / TICKS, y = y_of(value, most);
        fprintf(out, "<path d=\"M%d %.1f h%d\" stroke=\"#dddddd\"/>\n", LEFT, y, PLOT_WIDTH);
        snprintf(text, sizeof text, "%.3g", value);
        draw_text(out, LEFT - 6, y + 4, "end", text);
    }
    draw_text(out, LEFT, TOP - 10, "middle", unit);
}

/* Of a kernel's name, without the direction. */
static int layer_length(const char *name)
{
    const char *direction = strstr(name, " forward");
    if (direction == NULL)
        direction = strstr(name, " backward");
    return direction != NULL ? (int)(direction - name) : (int)strlen(name);
}

/* Height of the longest label of a layer, which is turned by 60 degrees. */
static double label_height(const tool_kernels_t *kernels)
{
    int letters = 0;
    for (size_t k = 0; k < kernels->count; k++)
        letters = letters > layer_length(kernels->at[k].name) ? letters
                                                              : layer_length(kernels->at[k].name);
    return 0.87 * 0.6 * LABEL_POINTS * letters;
}

static void draw_kernel(FILE *out, const tool_plan_t *plan, size_t k, double most, double step)
{
    const tool_kernel_t *const kernel = &plan->kernels->at[k];
    const uint64_t bytes = chosen(plan, k)->workspace_bytes;
    const double y = y_of((double)bytes, most);
    fprintf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"><title>",
            LEFT + step * (double)k, y, 0.85 * step, TOP + PLOT_HEIGHT - y,
            colours[kernel->direction % 3]);
    fprintf(out, "%s: %" PRIu64 " bytes</title></rect>\n", kernel->name, bytes);
}

/* A layer's name at its first kernel, unless it would touch the label before it. */
static void draw_layers(FILE *out, const tool_kernels_t *kernels, double step)
{
    const double room = LABEL_POINTS / 0.87 + 1;
    double free_from = 0;
    for (size_t k = 0; k < kernels->count; k++) {
        const double x = LEFT + step * (double)k;
        if (x < free_from || (k > 0 && kernels->at[k - 1].layer == kernels->at[k].layer))
            continue;
        fprintf(out,
                "<text transform=\"translate(%.1f %d) rotate(60)\" font-size=\"%d\">%.*s</text>\n",
                x, TOP + PLOT_HEIGHT + 12, LABEL_POINTS, layer_length(kernels->at[k].name),
                kernels->at[k].name);
        free_from = x + room;
    }
}

void tool_plan_draw_division(const tool_plan_t *plan, FILE *out)
{
    const tool_kernels_t *const kernels = plan->kernels;
    char title[256];
    double most = 1;
    for (size_t k = 0; k < kernels->count; k++)
        most = fmax(most, (double)chosen(plan, k)->workspace_bytes);
    snprintf(title, sizeof title, "%.60s, %.40s: workspace of each kernel, %.4g MiB in total (%s)",
             plan->title, plan->device, (double)plan->total_bytes / (1 << 20),
             mdnn_choices_convolution_wd_model[plan->model]);
    begin_drawing(out, title, label_height(kernels));
    draw_scale(out, most / (1 << 20), "MiB");
    const double step = (double)PLOT_WIDTH / (double)(kernels->count ? kernels->count : 1);
    for (size_t k = 0; k < kernels->count; k++)
        draw_kernel(out, plan, k, most, step);
    draw_layers(out, kernels, step);
    for (int d = 0; d < 3; d++) {
        fprintf(out, "<rect x=\"%d\" y=\"30\" width=\"10\" height=\"10\" fill=\"%s\"/>\n",
                LEFT + 40 + 140 * d, colours[d]);
        draw_text(out, LEFT + 55 + 140 * d, 40, "start", directions[d]);
    }
    fputs("</svg>\n", out);
}

void tool_plan_draw_set(const tool_plan_t *plan, size_t k, FILE *out)
{
    const mdnn_desirable_set_t *const set = plan->kernels->at[k].set;
    char text[256];
    const double slowest = 1.05 * set->items[0].time_ms;
    const double most = fmax(1, 1.05 * (double)set->items[set->count - 1].workspace_bytes);
    snprintf(text, sizeof text, "%.60s, %.40s: desirable configurations of %s", plan->title,
             plan->device, plan->kernels->at[k].name);
    begin_drawing(out, text, 0);
    draw_scale(out, slowest, "ms");
    for (int i = 0; i <= TICKS; i++) {
        snprintf(text, sizeof text, "%.3g%s", most / (1 << 20) * i / TICKS,
                 i < TICKS ? "" : " MiB");
        draw_text(out, LEFT + (double)PLOT_WIDTH * i / TICKS, TOP + PLOT_HEIGHT + 20, "middle",
                  text);
    }
    for (size_t i = 0; i < set->count; i++) {
        mdnn_configuration_format(mdnn_front_at(set->front, i), text, sizeof text);
        fprintf(out,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"><title>%s</title></circle>\n",
                LEFT + PLOT_WIDTH * (double)set->items[i].workspace_bytes / most,
                y_of(set->items[i].time_ms, slowest), i == plan->choices[k] ? 7 : 4,
                colours[i == plan->choices[k]], text);
    }
    fputs("</svg>\n", out);
}
