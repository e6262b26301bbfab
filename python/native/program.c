/* Runs another program to its end, for gpu_dispatch._transcribe:
 *
 *   run_program(argv, pass_on)
 *
 * Like subprocess.call(), with two differences that need C.
 *
 * The program dies with this process, however this process ends. The child asks the kernel for that before exec().
 *
 * The program gets each SIGINT once. For Ctrl-C the terminal sends SIGINT to every process in the foreground, so the
 * program has it already. A SIGINT that was sent only to this process must be passed on. Only a signal handler can
 * distinguish the two cases (si_code). So the handler here passes the signal on, and then calls the previous handler,
 * which is Python's. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "python/native/native.h"

/* ---- passing on signals ---- */

static struct {
    struct sigaction before;
    atomic_int pid;    /* 0: not started yet */
    atomic_int missed; /* a signal came before there was a process */
    atomic_int came;   /* a signal came whose KeyboardInterrupt has not been seen yet */
} passing;

static void pass_on_signal(int number, siginfo_t *info, void *context)
{
    const int kept = errno;
    atomic_store(&passing.came, 1);
    if (info->si_code <= 0) { /* sent by a process; signals of the terminal come from the kernel and are above 0 */
        atomic_store(&passing.missed, 1);
        const pid_t pid = atomic_load(&passing.pid);
        if (pid > 0 && atomic_exchange(&passing.missed, 0))
            kill(pid, number);
    }
    if (passing.before.sa_flags & SA_SIGINFO)
        passing.before.sa_sigaction(number, info, context);
    else
        passing.before.sa_handler(number);
    errno = kept;
}

/* False: this process has no handler for SIGINT. If it ignores SIGINT, the program ignores it too. If SIGINT ends this
 * process, the program ends with it. */
static bool passing_begin(void)
{
    struct sigaction ours = { .sa_sigaction = pass_on_signal };
    if (sigaction(SIGINT, NULL, &passing.before) < 0)
        return false;
    if (!(passing.before.sa_flags & SA_SIGINFO) &&
        (passing.before.sa_handler == SIG_DFL || passing.before.sa_handler == SIG_IGN))
        return false;
    atomic_store(&passing.pid, 0);
    atomic_store(&passing.missed, 0);
    atomic_store(&passing.came, 0);
    ours.sa_mask = passing.before.sa_mask;
    ours.sa_flags = (passing.before.sa_flags & SA_ONSTACK) | SA_SIGINFO;
    return sigaction(SIGINT, &ours, NULL) == 0;
}

static void passing_started(pid_t pid)
{
    atomic_store(&passing.pid, pid);
    if (atomic_exchange(&passing.missed, 0))
        kill(pid, SIGINT);
}

static void passing_end(void)
{
    sigaction(SIGINT, &passing.before, NULL);
}

/* ---- starting it ---- */

/* In the new process, between fork() and exec(): only functions that a signal handler may call. Signals stay blocked
 * until the handlers of the parent process are removed. */
static _Noreturn void become(char *const *argv, pid_t parent, const sigset_t *mask, int tell)
{
    static const int python_ignores[] = { SIGPIPE, SIGXFSZ };
    struct sigaction action;
    for (size_t i = 0; i < sizeof python_ignores / sizeof *python_ignores; i++)
        signal(python_ignores[i], SIG_DFL);
    if (sigaction(SIGINT, NULL, &action) == 0 && ((action.sa_flags & SA_SIGINFO) || action.sa_handler != SIG_IGN))
        signal(SIGINT, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* the parent died before the request took effect */
    pthread_sigmask(SIG_SETMASK, mask, NULL);
    execv(argv[0], argv);
    const int error = errno;
    if (write(tell, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

/* The number of the new process, or an error number below 0. */
static pid_t start(char *const *argv, bool pass_on)
{
    int tell[2], error = 0;
    sigset_t all, mask;
    const pid_t self = getpid();
    if (pipe2(tell, O_CLOEXEC) < 0)
        return -errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    const pid_t pid = fork();
    if (pid == 0)
        become(argv, self, &mask, tell[1]);
    error = pid < 0 ? errno : 0;
    if (pid > 0 && pass_on)
        passing_started(pid);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    close(tell[1]);
    ssize_t told = 0;
    while (pid > 0 && (told = read(tell[0], &error, sizeof error)) < 0 && errno == EINTR)
        ;
    close(tell[0]);
    if (told != (ssize_t)sizeof error && pid > 0)
        return pid;
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return -error;
}

/* ---- its end ---- */

/* Whether a handler's exception is the KeyboardInterrupt of a SIGINT. The program gets that signal too. So its exit
 * code shows the interrupt, and the exception is not needed. */
static bool is_sigint(void)
{
    return PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) && atomic_exchange(&passing.came, 0);
}

/* 0 when the program has ended; -1 with an exception, from a handler or because the wait failed. */
static int wait_for_end(pid_t pid)
{
    siginfo_t info;
    int rc, error;
    do {
        /* With WNOWAIT the program can be waited for again, so its number cannot be reused yet. */
        Py_BEGIN_ALLOW_THREADS
        rc = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
        error = errno;
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0) {
            if (!is_sigint())
                return -1;
            PyErr_Clear();
        }
    } while (rc < 0 && error == EINTR);
    if (rc == 0)
        return 0;
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

/* The exit code as in a shell: 128 plus the signal if the program was killed. */
static int reap(pid_t pid)
{
    int status = 0;
    pid_t rc;
    do {
        rc = waitpid(pid, &status, 0);
    } while (rc < 0 && errno == EINTR);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The exit code, or an error number below 0 if the program could not be started; NULL with an exception. The program
 * has ended in any case. */
static PyObject *run(char *const *argv, bool pass_on)
{
    const bool passes = pass_on && passing_begin();
    const pid_t pid = start(argv, passes);
    const bool failed = pid > 0 && wait_for_end(pid) < 0;
    if (failed)
        kill(pid, SIGKILL);
    if (passes)
        passing_end();
    const int code = pid > 0 ? reap(pid) : (int)pid;
    return failed ? NULL : PyLong_FromLong(code);
}

/* ---- the function ---- */

/* Pointers into the bytes of the list, and a NULL; free with PyMem_Free(). */
static char **read_words(PyObject *list)
{
    const Py_ssize_t n = PyList_GET_SIZE(list);
    char **words = n > 0 ? PyMem_Calloc((size_t)n + 1, sizeof *words) : NULL;
    if (!words)
        PyErr_SetString(PyExc_ValueError, "argv is empty: it must begin with the program");
    for (Py_ssize_t i = 0; words && i < n; i++) {
        if (PyBytes_AsStringAndSize(PyList_GET_ITEM(list, i), &words[i], NULL) < 0) {
            PyMem_Free(words);
            return NULL;
        }
    }
    return words;
}

PyDoc_STRVAR(run_program_doc,
             "run_program(argv, pass_on, /)\n--\n\n"
             "Runs a program with the standard streams of this process. Returns its exit code, or 128 "
             "plus the number of the signal that killed it, or an error number below 0 if it could not "
             "be started. pass_on (only on the main thread): pass on a SIGINT that was sent only to this "
             "process.");
static PyObject *run_program(PyObject *module, PyObject *args)
{
    PyObject *list;
    int pass_on;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!p:run_program", &PyList_Type, &list, &pass_on))
        return NULL;
    PyObject *copy = PyList_GetSlice(list, 0, PyList_GET_SIZE(list)); /* the caller may change its list meanwhile */
    char **words = copy ? read_words(copy) : NULL;
    PyObject *code = words ? run(words, pass_on) : NULL;
    PyMem_Free(words);
    Py_XDECREF(copy);
    return code;
}

int program_init(PyObject *module)
{
    static PyMethodDef methods[] = { { "run_program", run_program, METH_VARARGS, run_program_doc }, { 0 } };
    return PyModule_AddFunctions(module, methods);
}
