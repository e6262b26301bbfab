/* Connections between devices of sysfs.
 *
 * The real path of a PCI device names every bridge between it and the processor:
 *
 *   /sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:08.0/0000:43:00.0
 *                host bridge  root port  switch: upstream, downstream    device
 *
 * Two devices with a common bridge are connected through a PCIe switch. Many AMD GPUs have two bridges of their own.
 *
 * AMD: a node of the KFD topology has a directory per link. A link of type 11 is XGMI. Its weight is 15 for each hop,
 * and its maximum bandwidth divided by the minimum is the number of physical links.
 */
#include "gpu/backends/sysfs_links.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backends/sysfs_file.h"
#include "gpu/groups/connection.h"

enum {
    LINK_XGMI = 11,
    WEIGHT_PER_HOP = 15,
    MOST_LINKS = 64,
    OWN_PARTS = 4, /* the downstream port of a switch, two bridges of the device, and the device */
};

/* --- PCIe --- */

/* The part of the device's real path that begins with its host bridge ("pci0000:40/..."). NULL: not known. */
static const char *pci_path(const struct gd__found *f, char room[PATH_MAX])
{
    char path[GD__SYSFS_PATH_MAX];
    if (!gd__sysfs_path(path, f->directory, NULL) || !realpath(path, room))
        return NULL;
    const char *at = strstr(room, "/pci0");
    return at ? at + 1 : NULL;
}

static size_t count_parts(const char *path)
{
    size_t n = *path != '\0';
    for (; *path; path++)
        n += *path == '/';
    return n;
}

/* Counts the first parts that are the same in both paths. *a and *b are moved behind them. */
static size_t skip_common(const char **a, const char **b)
{
    size_t n = 0;
    for (;;) {
        const size_t length = strcspn(*a, "/");
        if (length == 0 || strcspn(*b, "/") != length || memcmp(*a, *b, length) != 0)
            return n;
        *a += length + ((*a)[length] == '/');
        *b += length + ((*b)[length] == '/');
        n++;
    }
}

int gd__pci_connection(const struct gd__found *a, const struct gd__found *b)
{
    char room_a[PATH_MAX], room_b[PATH_MAX];
    const char *path_a = pci_path(a, room_a), *path_b = pci_path(b, room_b);
    if (!path_a || !path_b)
        return GD__CONNECTION_SYSTEM;
    const size_t common = skip_common(&path_a, &path_b);
    if (common < 2) /* no bridge; 1: the host bridge */
        return common == 1 ? GD__CONNECTION_BRIDGE : GD__CONNECTION_SYSTEM;
    const bool near = count_parts(path_a) <= OWN_PARTS && count_parts(path_b) <= OWN_PARTS;
    return near ? GD__CONNECTION_SWITCH : GD__CONNECTION_SWITCHES;
}

/* --- XGMI --- */

/* Whether the text describes an XGMI link to that node. Sets *value to the connection. */
static bool read_link(const char *text, unsigned to, int *value)
{
    uint64_t type = 0, node = 0, weight = 0, least = 0, most = 0;
    if (!gd__sysfs_property(text, "type", &type) || type != LINK_XGMI || !gd__sysfs_property(text, "node_to", &node) ||
        node != to)
        return false;
    *value = GD__CONNECTION_NVLINK;
    if (gd__sysfs_property(text, "weight", &weight) && weight > WEIGHT_PER_HOP)
        return true; /* through another GPU */
    const bool known =
        gd__sysfs_property(text, "min_bandwidth", &least) && gd__sysfs_property(text, "max_bandwidth", &most);
    const uint64_t links = known && least > 0 ? most / least : 1;
    *value += links < 1 ? 1 : links < MOST_LINKS ? (int)links : MOST_LINKS;
    return true;
}

int gd__kfd_connection(const char *nodes, const struct gd__found *a, const struct gd__found *b)
{
    char directory[GD__SYSFS_PATH_MAX], text[4096];
    int found = -1;
    snprintf(directory, sizeof directory, "%s/%u/io_links", nodes, a->kfd_node);
    DIR *dir = gd__sysfs_open(directory);
    for (struct dirent *e; dir && found < 0 && (e = readdir(dir));) {
        char name[64];
        snprintf(name, sizeof name, "%.32s/properties", e->d_name);
        if (gd__sysfs_numbered(e->d_name, "") >= 0 && gd__sysfs_read(directory, name, text, sizeof text))
            (void)read_link(text, b->kfd_node, &found);
    }
    if (dir)
        closedir(dir);
    return found >= 0 ? found : gd__pci_connection(a, b);
}
