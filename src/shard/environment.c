/* Finds out from the environment which shard this process is.
 *
 * All variables are read first. Then each source is checked by itself, then the sources are compared, and then the
 * shard is computed. What Slurm sets was measured with Slurm 22.05:
 *
 *   - In a batch script, SLURM_PROCID is 0 and SLURM_NTASKS is the number of tasks of the job, or not set. But only one
 *     process runs the script. Processes that srun starts also have SLURM_STEP_ID. So PROCID and NTASKS count only if
 *     SLURM_STEP_ID is set.
 *   - An array with holes, such as --array=3,7, has COUNT=2 MIN=3 MAX=7 STEP=1.
 *
 * sbatch and srun pass on the variables of the shell that they are called in. So a batch script that was submitted from
 * a job step has the SLURM_STEP_ID of that step. If possible, slurm_step.c finds that out from the process that started
 * the script. Otherwise, SLURM_STEP_NUM_TASKS is of that step too, and may differ from SLURM_NTASKS, which sbatch sets.
 * In the same way, a job that was submitted in an element of an array looks like an element. Nothing shows that it is
 * not one.
 *
 * The error messages are for programs in C and Python too, so they name no options. The command replaces some of their
 * words: cli/run/shard/shard_options.c.
 */
#include "shard/environment.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/printable.h"

enum variable {
    JOB_ID,
    STEP_ID,
    STEP_NUM_TASKS,
    PROCID,
    NTASKS,
    NODES,
    ARRAY_ID,
    ARRAY_COUNT,
    ARRAY_MIN,
    ARRAY_MAX,
    ARRAY_STEP,
    PMI_RANK,
    PMI_SIZE,
    OMPI_RANK,
    OMPI_SIZE,
    TORCH_RANK,
    TORCH_SIZE,
    JOB_INDEX,
    VARIABLES
};

static const char *const names[VARIABLES] = {
    [JOB_ID] = "SLURM_JOB_ID",
    [STEP_ID] = "SLURM_STEP_ID",
    [STEP_NUM_TASKS] = "SLURM_STEP_NUM_TASKS",
    [PROCID] = "SLURM_PROCID",
    [NTASKS] = "SLURM_NTASKS",
    [NODES] = "SLURM_JOB_NUM_NODES",
    [ARRAY_ID] = "SLURM_ARRAY_TASK_ID",
    [ARRAY_COUNT] = "SLURM_ARRAY_TASK_COUNT",
    [ARRAY_MIN] = "SLURM_ARRAY_TASK_MIN",
    [ARRAY_MAX] = "SLURM_ARRAY_TASK_MAX",
    [ARRAY_STEP] = "SLURM_ARRAY_TASK_STEP",
    [PMI_RANK] = "PMI_RANK",
    [PMI_SIZE] = "PMI_SIZE",
    [OMPI_RANK] = "OMPI_COMM_WORLD_RANK",
    [OMPI_SIZE] = "OMPI_COMM_WORLD_SIZE",
    [TORCH_RANK] = "RANK",
    [TORCH_SIZE] = "WORLD_SIZE",
    [JOB_INDEX] = "JOB_COMPLETION_INDEX",
};

/* Slurm gives steps that srun did not start (the batch script, an interactive shell) numbers from here on. */
#define FIRST_SPECIAL_STEP UINT64_C(0xfffffff0)

#define BIT(variable) (1u << (variable))
#define ARRAY         (BIT(ARRAY_ID) | BIT(ARRAY_COUNT) | BIT(ARRAY_MIN) | BIT(ARRAY_MAX) | BIT(ARRAY_STEP))

enum { VALUE_SHOWN = 40, LIST_ROOM = 1200 };

struct seen {
    const char *text[VARIABLES]; /* NULL: not set */
    uint64_t number[VARIABLES];
    bool in_step; /* srun started this process */
};

/* The sources that number processes. */
enum source { SRUN, PMI, OPEN_MPI, TORCHRUN, KUBERNETES, SOURCES };

static const struct {
    enum variable rank, size;      /* the same one twice: there is no size */
    const char *program, *process; /* for messages */
} sources[SOURCES] = {
    [SRUN] = { PROCID, NTASKS, "srun", "task" },
    [PMI] = { PMI_RANK, PMI_SIZE, "PMI", "process" },
    [OPEN_MPI] = { OMPI_RANK, OMPI_SIZE, "Open MPI", "process" },
    [TORCHRUN] = { TORCH_RANK, TORCH_SIZE, "torchrun", "process" },
    [KUBERNETES] = { JOB_INDEX, JOB_INDEX, "Kubernetes", "pod" },
};

/* --- reading and showing --- */

/* Lists these variables: "SLURM_NTASKS=3, SLURM_STEP_ID is not set". */
static const char *list(char out[LIST_ROOM], const struct seen *s, unsigned variables)
{
    size_t length = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < VARIABLES; i++) {
        char value[VALUE_SHOWN];
        if (!(variables & BIT(i)))
            continue;
        if (s->text[i])
            (void)gd__text_line(value, sizeof value, s->text[i], strlen(s->text[i]));
        const int n = snprintf(out + length, LIST_ROOM - length, "%s%s%s%s", length > 0 ? ", " : "", names[i],
                               s->text[i] ? "=" : " is not set", s->text[i] ? value : "");
        length += n > 0 && (size_t)n < LIST_ROOM - length ? (size_t)n : 0;
    }
    return out;
}

static unsigned set_among(const struct seen *s, unsigned variables)
{
    unsigned set = 0;
    for (unsigned i = 0; i < VARIABLES; i++)
        set |= (variables & BIT(i)) && s->text[i] ? BIT(i) : 0;
    return set;
}

static int read_all(struct seen *s, const struct gd__shard_environment *e)
{
    char seen[LIST_ROOM];
    *s = (struct seen){ 0 };
    for (unsigned i = 0; i < VARIABLES; i++) {
        s->text[i] = e->get(e->user, names[i]);
        const char *at = s->text[i];
        if (at && (!gd__shard_number(&at, UINT32_MAX, &s->number[i]) || *at))
            return gd__error(
                GD_E_INVALID,
                "%s: this is not a number from 0 to 4294967295. Correct or unset it, or give the shard as K/N",
                list(seen, s, BIT(i)));
    }
    s->in_step = s->text[STEP_ID] && s->number[STEP_ID] < FIRST_SPECIAL_STEP &&
                 !(e->in_batch_script && e->in_batch_script(e->user));
    return 0;
}

/* --- each source by itself --- */

/* Some of these variables are set, and others that always come with them are not. */
static int half_set(const struct seen *s, unsigned variables, const char *program)
{
    char seen[LIST_ROOM];
    return gd__error(GD_E_INVALID,
                     "%s: %s sets all of them or none. Pass its environment on unchanged, or give the shard as K/N",
                     list(seen, s, variables), program);
}

static int impossible(const struct seen *s, unsigned variables, const char *why)
{
    char seen[LIST_ROOM];
    return gd__error(GD_E_INVALID, "%s: %s. Correct the environment, or give the shard as K/N",
                     list(seen, s, variables), why);
}

static int check_size(const struct seen *s, enum variable rank, enum variable size)
{
    if (s->number[rank] >= s->number[size])
        return impossible(s, BIT(rank) | BIT(size), "the first must be smaller than the second");
    if (s->number[size] > GD__SHARD_MOST)
        return impossible(s, BIT(size), "this is more than the 1000000 shards that are possible");
    return 0;
}

static int check_srun(const struct seen *s)
{
    const unsigned needed = BIT(STEP_ID) | BIT(PROCID) | BIT(NTASKS);
    char seen[LIST_ROOM];
    if (s->in_step && set_among(s, needed) != needed)
        return half_set(s, needed, "srun");
    if (s->in_step && s->text[STEP_NUM_TASKS] && s->number[STEP_NUM_TASKS] != s->number[NTASKS])
        return gd__error(GD_E_INVALID,
                         "%s: these numbers of tasks differ, so one of them is of another job step. Start the program "
                         "with srun, as in \"srun PROGRAM ...\", or give the shard as K/N",
                         list(seen, s, BIT(STEP_NUM_TASKS) | BIT(NTASKS)));
    if (!s->in_step && s->number[PROCID] > 0)
        return half_set(s, needed, "srun");
    return s->in_step ? check_size(s, PROCID, NTASKS) : 0;
}

/* The job has more tasks or nodes than the one process that sbatch or salloc starts. */
static int check_without_srun(const struct seen *s)
{
    const bool tasks = s->number[NTASKS] > 1;
    const enum variable more = tasks ? NTASKS : NODES;
    char seen[LIST_ROOM];
    if (s->number[more] <= 1)
        return 0;
    return gd__error(GD_E_INVALID,
                     "%s: %s has %llu %s, but this process was not started by srun, so the rest would be idle. Start "
                     "one process for each, with \"srun %sPROGRAM ...\", or submit %s with %s",
                     list(seen, s, BIT(STEP_ID) | BIT(more)),
                     s->text[ARRAY_ID] ? "each element of the array" : "the job", (unsigned long long)s->number[more],
                     tasks ? "tasks" : "nodes", tasks ? "" : "--ntasks-per-node=1 ",
                     s->text[ARRAY_ID] ? "the array" : "the job", tasks ? "--ntasks=1" : "--nodes=1");
}

/* Nothing overflows: each number is below 2^32, MIN is at most MAX, and COUNT is at least 1. */
static bool has_holes(const struct seen *s)
{
    return s->number[ARRAY_MAX] - s->number[ARRAY_MIN] != (s->number[ARRAY_COUNT] - 1) * s->number[ARRAY_STEP];
}

static int check_array(const struct seen *s)
{
    const uint64_t id = s->number[ARRAY_ID], min = s->number[ARRAY_MIN], max = s->number[ARRAY_MAX];
    char seen[LIST_ROOM];
    if (set_among(s, ARRAY) == 0)
        return 0;
    if (set_among(s, ARRAY) != ARRAY)
        return half_set(s, ARRAY, "Slurm");
    if (s->number[ARRAY_COUNT] == 0 || s->number[ARRAY_STEP] == 0 || id < min || id > max)
        return impossible(s, ARRAY, "there is no such element in an array");
    if (has_holes(s))
        return gd__error(GD_E_INVALID,
                         "%s: the array has holes, so its elements do not tell which shard they are. Submit it without "
                         "holes, as in --array=0-%llu, or give the shard as K/N",
                         list(seen, s, ARRAY), (unsigned long long)s->number[ARRAY_COUNT] - 1);
    if ((id - min) % s->number[ARRAY_STEP] != 0)
        return impossible(s, ARRAY, "there is no such element in an array");
    if (s->number[ARRAY_COUNT] > GD__SHARD_MOST)
        return impossible(s, BIT(ARRAY_COUNT), "this is more than the 1000000 shards that are possible");
    return 0;
}

static unsigned bits_of(enum source i)
{
    return BIT(sources[i].rank) | BIT(sources[i].size);
}

static int check_pair(const struct seen *s, enum source i)
{
    const unsigned set = set_among(s, bits_of(i));
    if (set != 0 && set != bits_of(i))
        return half_set(s, bits_of(i), sources[i].program);
    return set == 0 ? 0 : check_size(s, sources[i].rank, sources[i].size);
}

/* wanted: the N of "auto/N", or 0. */
static int check_kubernetes(const struct seen *s, uint32_t wanted)
{
    char seen[LIST_ROOM];
    if (!s->text[JOB_INDEX] || wanted == 0 || s->number[JOB_INDEX] < wanted)
        return 0;
    return gd__error(GD_E_INVALID, "%s, but auto/%u: the index must be 0 to %u. Write the job's completions as N",
                     list(seen, s, BIT(JOB_INDEX)), wanted, wanted - 1);
}

static int check_each(const struct seen *s, uint32_t wanted)
{
    int rc = check_srun(s);
    for (enum source i = PMI; rc == 0 && i <= TORCHRUN; i++)
        rc = check_pair(s, i);
    if (rc == 0)
        rc = check_array(s);
    return rc == 0 ? check_kubernetes(s, wanted) : rc;
}

/* --- the sources together --- */

/* The number of a process among others. */
struct rank {
    enum source from; /* SOURCES: none */
    uint32_t index;
    uint32_t count; /* 0: not known */
};

static bool is_present(const struct seen *s, enum source i)
{
    return i == SRUN ? s->in_step : s->text[sources[i].rank] != NULL;
}

static struct rank rank_of(const struct seen *s, enum source i, uint32_t wanted)
{
    return (struct rank){ .from = i,
                          .index = (uint32_t)s->number[sources[i].rank],
                          .count = i == KUBERNETES ? wanted : (uint32_t)s->number[sources[i].size] };
}

static bool agree(const struct rank *a, const struct rank *b)
{
    return a->index == b->index && (a->count == b->count || a->count == 0 || b->count == 0);
}

/* Finds the one rank on which all sources agree. Kubernetes is the last, because it has no count of its own. */
static int find_rank(const struct seen *s, uint32_t wanted, struct rank *out)
{
    char seen[LIST_ROOM];
    *out = (struct rank){ .from = SOURCES };
    for (enum source i = SRUN; i < SOURCES; i++) {
        if (!is_present(s, i))
            continue;
        const struct rank r = rank_of(s, i, wanted);
        if (out->from == SOURCES) {
            *out = r;
        } else if (!agree(out, &r)) {
            return gd__error(GD_E_INVALID,
                             "%s: %s and %s number this process differently. Give the shard as K/N, with the numbers "
                             "that are right, or unset the others",
                             list(seen, s, bits_of(out->from) | bits_of(i)), sources[out->from].program,
                             sources[i].program);
        }
    }
    return 0;
}

/* Ranks that srun did not give may be of one element of an array, or of all elements together. A world of one process
 * is always that of one element. */
static int check_rank_in_array(const struct seen *s, const struct rank *r)
{
    char seen[LIST_ROOM];
    if (!s->text[ARRAY_ID])
        return 0;
    if (s->text[JOB_INDEX])
        return gd__error(GD_E_INVALID,
                         "%s: both a Slurm array and a Kubernetes job number this process. Give the shard as K/N, or "
                         "unset the variables of one of them",
                         list(seen, s, BIT(ARRAY_ID) | BIT(ARRAY_COUNT) | BIT(JOB_INDEX)));
    if (r->from == SOURCES || r->from == SRUN || r->count == 1)
        return 0;
    return gd__error(GD_E_INVALID,
                     "%s: %s may number the processes of one element of the array, or those of all elements. Use srun "
                     "in the batch script, as in \"srun PROGRAM ...\", or give the shard as K/N",
                     list(seen, s, BIT(ARRAY_ID) | BIT(ARRAY_COUNT) | bits_of(r->from)), sources[r->from].program);
}

static int nothing_found(const struct seen *s)
{
    if (s->text[JOB_ID])
        return gd__error(GD_E_INVALID,
                         "SLURM_JOB_ID=%llu, but the job is not an array, and this process was not started by srun. So "
                         "there is only one process. Submit the job with --array=0-15, use \"srun PROGRAM ...\", "
                         "or run without a shard",
                         (unsigned long long)s->number[JOB_ID]);
    return gd__error(GD_E_INVALID, "the environment has no variables of Slurm (srun, arrays), PMI, Open MPI, torchrun "
                                   "or Kubernetes that tell which shard this is. Give the shard as K/N");
}

/* --- the result --- */

static void write_origin(char out[GD_SHARD_ORIGIN], const struct seen *s, const struct gd_shard *array,
                         const struct rank *r)
{
    int n = 0;
    if (s->text[ARRAY_ID])
        n = snprintf(out, GD_SHARD_ORIGIN, "element %u of %u of the Slurm array%s", array->index + 1, array->count,
                     r->from < SOURCES ? ", " : "");
    if (r->from < SOURCES && n >= 0 && n < GD_SHARD_ORIGIN)
        (void)snprintf(out + n, GD_SHARD_ORIGIN - (size_t)n, "%s %u of %u of %s", sources[r->from].process,
                       r->index + 1, r->count, sources[r->from].program);
}

static int compute(const struct seen *s, const struct rank *r, uint32_t wanted, struct gd_shard *out,
                   char origin[GD_SHARD_ORIGIN])
{
    struct gd_shard array = { 0, 1 };
    const uint32_t index = r->from < SOURCES ? r->index : 0, count = r->from < SOURCES ? r->count : 1;
    if (s->text[ARRAY_ID]) {
        array.index = (uint32_t)((s->number[ARRAY_ID] - s->number[ARRAY_MIN]) / s->number[ARRAY_STEP]);
        array.count = (uint32_t)s->number[ARRAY_COUNT];
    }
    write_origin(origin, s, &array, r);
    const uint64_t all = (uint64_t)array.count * count;
    if (all > GD__SHARD_MOST)
        return gd__error(GD_E_INVALID, "%s: these are %llu shards, and at most %d are possible", origin,
                         (unsigned long long)all, GD__SHARD_MOST);
    if (wanted > 0 && wanted != all)
        return gd__error(GD_E_INVALID,
                         "auto/%u, but the environment has %llu shard%s: this is %s. Give the shard as auto, or "
                         "K/%u to run a single shard again",
                         wanted, (unsigned long long)all, all == 1 ? "" : "s", origin, wanted);
    *out = (struct gd_shard){ array.index * count + index, (uint32_t)all };
    return 0;
}

static int find(struct gd_shard *out, char origin[GD_SHARD_ORIGIN], uint32_t wanted,
                const struct gd__shard_environment *e)
{
    struct seen s;
    struct rank r = { .from = SOURCES };
    int rc = read_all(&s, e);
    if (rc == 0)
        rc = check_each(&s, wanted);
    if (rc == 0)
        rc = find_rank(&s, wanted, &r);
    if (rc < 0)
        return rc;
    if (r.from == SOURCES && (rc = check_without_srun(&s)) < 0)
        return rc;
    if (r.from == SOURCES && !s.text[ARRAY_ID])
        return nothing_found(&s);
    if ((rc = check_rank_in_array(&s, &r)) < 0)
        return rc;
    if (r.from < SOURCES && r.count == 0)
        return gd__error(GD_E_INVALID,
                         "JOB_COMPLETION_INDEX=%u: Kubernetes does not tell how many shards there are. Give the shard "
                         "as auto/N, where N is the number of completions of the job",
                         r.index);
    return compute(&s, &r, wanted, out, origin);
}

int gd__shard_find(struct gd_shard *out, char origin[GD_SHARD_ORIGIN], const struct gd__shard_spec *spec,
                   const struct gd__shard_environment *environment)
{
    char unused[GD_SHARD_ORIGIN];
    char *to = origin ? origin : unused;
    to[0] = '\0';
    *out = spec->shard;
    return spec->automatic ? find(out, to, spec->shard.count, environment) : 0;
}
