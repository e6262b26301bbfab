/* The part of NVML's binary interface that is used here, in our own declarations. NVML is opened at run time, and is
 * not needed to build.
 */
#ifndef GD_GPU_BACKENDS_NVML_API_H
#define GD_GPU_BACKENDS_NVML_API_H

#include <assert.h>
#include <stddef.h>

enum gd__nvml_return {
    GD__NVML_SUCCESS = 0,
    GD__NVML_NOT_SUPPORTED = 3,
    GD__NVML_INSUFFICIENT_SIZE = 7,
    GD__NVML_TIMEOUT = 10,
    GD__NVML_GPU_IS_LOST = 15,
};

enum {
    GD__NVML_TEXT = 96, /* room for a name or a UUID */
    GD__NVML_TEMPERATURE_GPU = 0,
    GD__NVML_MODE_PROHIBITED = 2,
    GD__NVML_MIG_ENABLED = 1,
    GD__NVML_LINKS_MOST = 36, /* NVLinks of a GPU; today's have at most 18 */
    GD__NVML_P2P_NVLINK = 2,  /* nvmlGpuP2PCapsIndex_t */
    GD__NVML_P2P_OK = 0,      /* nvmlGpuP2PStatus_t */
};

enum gd__nvml_ancestor { /* nvmlGpuTopologyLevel_t */
                         GD__NVML_INTERNAL = 0,
                         GD__NVML_SINGLE = 10,
                         GD__NVML_MULTIPLE = 20,
                         GD__NVML_HOSTBRIDGE = 30,
                         GD__NVML_NODE = 40,
                         GD__NVML_SYSTEM = 50,
};

#define GD__NVML_EVENT_XID   0x8ULL
#define GD__NVML_NO_INSTANCE 0xFFFFFFFFu
#define GD__NVML_NOT_KNOWN   (~0ULL)

typedef void *gd__nvml_device;
typedef void *gd__nvml_events;

struct gd__nvml_pci { /* for nvmlDeviceGetPciInfo_v3 and nvmlDeviceGetNvLinkRemotePciInfo_v2 */
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct gd__nvml_memory {
    unsigned long long total, free, used;
};

struct gd__nvml_utilization {
    unsigned gpu, memory;
};

struct gd__nvml_process_v1 { /* for nvmlDeviceGetComputeRunningProcesses */
    unsigned pid;
    unsigned long long memory;
};

struct gd__nvml_process { /* for versions _v2 and _v3 of that function */
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

struct gd__nvml_event { /* for nvmlEventSetWait_v2; the first version does not fill in the last two fields */
    gd__nvml_device device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

static_assert(sizeof(struct gd__nvml_pci) == 68 && offsetof(struct gd__nvml_pci, bus_id) == 36, "nvmlPciInfo_t");
static_assert(sizeof(struct gd__nvml_memory) == 24, "nvmlMemory_t");
static_assert(sizeof(struct gd__nvml_process_v1) == 16, "nvmlProcessInfo_v1_t");
static_assert(sizeof(struct gd__nvml_process) == 24, "nvmlProcessInfo_v2_t");
static_assert(sizeof(struct gd__nvml_event) == 32 && offsetof(struct gd__nvml_event, data) == 16, "nvmlEventData_t");

/* Functions of NVML. */
struct gd__nvml {
    int (*init)(void);
    const char *(*error_string)(int);
    int (*count)(unsigned *);
    int (*handle)(unsigned, gd__nvml_device *);
    int (*name)(gd__nvml_device, char *, unsigned);
    int (*uuid)(gd__nvml_device, char *, unsigned);
    int (*pci)(gd__nvml_device, struct gd__nvml_pci *);
    int (*memory)(gd__nvml_device, struct gd__nvml_memory *);
    /* the rest may be NULL */
    int (*utilization)(gd__nvml_device, struct gd__nvml_utilization *);
    int (*temperature)(gd__nvml_device, int, unsigned *);
    int (*power)(gd__nvml_device, unsigned *);
    int (*processes)(gd__nvml_device, unsigned *, void *);    /* struct gd__nvml_process */
    int (*processes_v1)(gd__nvml_device, unsigned *, void *); /* struct gd__nvml_process_v1 */
    int (*mig_mode)(gd__nvml_device, unsigned *current, unsigned *pending);
    int (*mig_most)(gd__nvml_device, unsigned *);
    int (*mig_handle)(gd__nvml_device, unsigned, gd__nvml_device *);
    int (*gpu_instance)(gd__nvml_device, unsigned *);
    int (*compute_instance)(gd__nvml_device, unsigned *);
    int (*cpus)(gd__nvml_device, unsigned n_words, unsigned long *);
    int (*compute_mode)(gd__nvml_device, int *);
    int (*ancestor)(gd__nvml_device, gd__nvml_device, int *); /* enum gd__nvml_ancestor */
    int (*p2p)(gd__nvml_device, gd__nvml_device, int what, int *status);
    int (*link_state)(gd__nvml_device, unsigned link, int *is_active);
    int (*link_remote)(gd__nvml_device, unsigned link, struct gd__nvml_pci *);
    int (*event_types)(gd__nvml_device, unsigned long long *);
    int (*events_create)(gd__nvml_events *);
    int (*events_register)(gd__nvml_device, unsigned long long types, gd__nvml_events);
    int (*events_wait)(gd__nvml_events, struct gd__nvml_event *, unsigned timeout_ms);
    int (*events_free)(gd__nvml_events);
};

/* Returns NVML. The first call opens and starts it, and it stays open. On failure returns NULL and writes the reason to
 * why (of size GD__WHY_MAX). The next call tries again. */
const struct gd__nvml *gd__nvml_open(char *why);
const struct gd__nvml *gd__nvml_open_locked(char *why); /* the same with the module's lock held */

/* A GPU and its UUID. The UUID is stored because a lost GPU does not report it. */
struct gd__nvml_gpu {
    gd__nvml_device handle;
    char uuid[GD__NVML_TEXT];
};

/* Calls fn for the UUID of a GPU and for those of all its MIG instances. gi is a GPU instance, and ci is a compute instance
 * in it; GD__NVML_NO_INSTANCE: not given. If gi is given, calls fn only for the MIG instances of gi. If ci is given
 * too, calls fn only for that of ci. For a lost GPU, calls fn only with the GPU's UUID. */
typedef void gd__nvml_uuid_fn(void *user, const char *uuid);
void gd__nvml_each_uuid(const struct gd__nvml *n, const struct gd__nvml_gpu *gpu, unsigned gi, unsigned ci,
                        gd__nvml_uuid_fn *fn, void *user);

#endif
