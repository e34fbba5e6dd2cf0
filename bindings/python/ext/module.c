/* SPDX-License-Identifier: Apache-2.0 */
/* module.c: gradscaler._core: puts together what the other files offer. */
#include "python.h"

#include <string.h>

#include "buffer.h"
#include "busy.h"
#include "errors.h"
#include "functions.h"
#include "handle.h"
#include "scaler.h"

/* The statics of this extension belong to the interpreter that loaded it first. */
static int claim_interpreter(void)
{
    static PyInterpreterState *owner;
    if (!owner)
        owner = PyInterpreterState_Get();
    if (owner == PyInterpreterState_Get())
        return 0;
    PyErr_SetString(PyExc_ImportError,
                    "gradscaler can be used in one interpreter of a process; another one has loaded it");
    return -1;
}

static int execute(PyObject *module)
{
    if (claim_interpreter() < 0 || buffer_init() < 0 || busy_init() < 0 || errors_add(module) < 0 ||
        functions_add(module) < 0 || handle_add_type(module) < 0)
        return -1;
    return scaler_add_type(module);
}

/* Named by the interpreter. */
PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, NULL}, {0, NULL}};
    static PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,
        .m_name = "gradscaler._core",
        .m_doc = "The core of gradscaler. Private: use the names of the package.",
        .m_slots = slots,
    };
    int (*exec)(PyObject *) = execute;
    memcpy(&slots[0].value, &exec, sizeof exec); /* ISO C has no cast from a function to an object pointer */
    return PyModuleDef_Init(&definition);
}
