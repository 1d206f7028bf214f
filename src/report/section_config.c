/* Configuration section: config.yml of every run, and a table of the keys in
 * which runs differ. */
#include "report/section.h"

#include "draw/html.h"

#include <string.h>

static const struct vp_yaml_node *find(const struct vp_run_data *run,
                                       const char *key)
{
    const struct vp_yaml_node *at = run->config ? run->config->child : NULL;

    while (at && strcmp(at->key, key) != 0)
        at = at->next;
    return at;
}

static const char *text_of(struct vp_run_data *run, const char *key)
{
    const struct vp_yaml_node *node = find(run, key);

    return node ? vp_node_text(&run->arena, node) : "-";
}

/* Returns true if a run before run `i` has the key: its row was written
 * already. */
static bool seen_before(const struct vp_page_run *runs, int i, const char *key)
{
    for (int k = 0; k < i; k++)
        if (find(&runs[k].data, key))
            return true;
    return false;
}

static bool differs(struct vp_page_run *runs, int n, const char *key)
{
    const char *first = text_of(&runs[0].data, key);

    for (int i = 1; i < n; i++)
        if (strcmp(text_of(&runs[i].data, key), first) != 0)
            return true;
    return false;
}

static void put_row(struct vp_strbuf *out, struct vp_page_run *runs, int n,
                    const char *key)
{
    vp_strbuf_adds(out, "<tr><th scope=\"row\">");
    vp_html_text(out, key);
    vp_strbuf_adds(out, "</th>");
    for (int i = 0; i < n; i++)
        vp_part_cell(out, text_of(&runs[i].data, key));
    vp_strbuf_adds(out, "</tr>\n");
}

static void put_differences(struct vp_strbuf *out, struct vp_page_run *runs,
                            int n)
{
    int n_rows = 0;

    vp_strbuf_adds(out, "<h3>What differs</h3>\n<div class=\"scroll\"><table>"
                        "<thead><tr><th scope=\"col\">Key</th>");
    for (int i = 0; i < n; i++) {
        vp_strbuf_adds(out, "<th scope=\"col\">");
        vp_html_text(out, runs[i].data.name);
        vp_strbuf_adds(out, "</th>");
    }
    vp_strbuf_adds(out, "</tr></thead><tbody>\n");
    for (int i = 0; i < n; i++)
        for (const struct vp_yaml_node *at =
                 runs[i].data.config ? runs[i].data.config->child : NULL;
             at; at = at->next)
            if (!seen_before(runs, i, at->key) && differs(runs, n, at->key)) {
                put_row(out, runs, n, at->key);
                n_rows++;
            }
    if (n_rows == 0)
        vp_strbuf_addf(out, "<tr><td colspan=\"%d\">nothing</td></tr>", n + 1);
    vp_strbuf_adds(out, "</tbody></table></div>\n");
}

static void put_all(struct vp_strbuf *out, struct vp_page_run *run)
{
    vp_strbuf_adds(out, "<details><summary>config.yml of ");
    vp_html_text(out, run->data.name);
    vp_strbuf_adds(out, "</summary><div class=\"scroll\"><table "
                        "class=\"pairs\"><tbody>\n");
    for (const struct vp_yaml_node *at =
             run->data.config ? run->data.config->child : NULL;
         at; at = at->next)
        put_row(out, run, 1, at->key);
    vp_strbuf_adds(out, "</tbody></table></div></details>\n");
}

void vp_section_config(struct vp_strbuf *out, struct vp_page_run *runs, int n)
{
    vp_strbuf_adds(out, "<section id=\"config\"><h2>Configuration</h2>\n");
    if (n > 1)
        put_differences(out, runs, n);
    for (int i = 0; i < n; i++)
        put_all(out, &runs[i]);
    vp_strbuf_adds(out, "</section>\n");
}
