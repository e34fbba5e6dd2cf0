/* SPDX-License-Identifier: Apache-2.0 */
/* scaler.c: the type Scaler, and its methods that change a scaler. */
#include "scaler.h"

#include "call.h"
#include "callbacks.h"
#include "errors.h"
#include "inspect.h"
#include "numbers.h"
#include "options.h"
#include "state.h"

static PyTypeObject *type;

static gsc_scaler *scaler_core(PyObject *self) { return ((py_scaler *)self)->core; }

static const gsc_optimizer *frame_optimizer(const call_frame *frame) { return &frame->handle->optimizer; }

static int scaler_init(py_scaler *self, PyObject *args, PyObject *keywords)
{
    gsc_scaler_options options;
    gsc_comm comm;
    if (options_from_arguments(self, args, keywords, &options, &comm) < 0)
        return -1;
    self->handles = PySet_New(NULL);
    if (!self->handles)
        return -1;
    gsc_status status = gsc_scaler_create(&options, &self->core);
    if (status == GSC_OK)
        return 0;
    raise_status(status);
    return -1;
}

static PyObject *scaler_new(PyTypeObject *cls, PyObject *args, PyObject *keywords)
{
    PyObject *self = type_allocate(cls);
    if (self && scaler_init((py_scaler *)self, args, keywords) < 0)
        Py_CLEAR(self);
    return self;
}

static int scaler_traverse(PyObject *object, visitproc visit, void *arg)
{
    py_scaler *self = (py_scaler *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->handles);
    Py_VISIT(self->allreduce_max);
    Py_VISIT(self->allreduce_sum);
    Py_VISIT(self->allreduce_max64);
    Py_VISIT(self->observer);
    return 0;
}

/* Breaks the cycles, which run through the callables. The handles stay as long as the core knows them. */
static int scaler_clear(PyObject *object)
{
    py_scaler *self = (py_scaler *)object;
    Py_CLEAR(self->allreduce_max);
    Py_CLEAR(self->allreduce_sum);
    Py_CLEAR(self->allreduce_max64);
    Py_CLEAR(self->observer);
    return 0;
}

static void scaler_dealloc(PyObject *object)
{
    py_scaler *self = (py_scaler *)object;
    PyObject_GC_UnTrack(object);
    scaler_clear(object);
    if (!busy_is_lost(&self->busy))
        gsc_scaler_destroy(self->core);
    Py_CLEAR(self->handles);
    type_free(object);
}

/* Borrows the gradients if the core will read them. Otherwise it does not matter what they are. Between unscale and
 * step the core compares those that it is given; none are: an empty list. */
static int take_if_read(call_frame *frame, PyObject *grads, bool clips, bool compares)
{
    gsc_stage stage = gsc_scaler_get_stage(frame->scaler->core, frame_optimizer(frame));
    bool reads = gsc_scaler_is_enabled(frame->scaler->core)
                     ? stage == GSC_STAGE_READY || (stage == GSC_STAGE_UNSCALED && (clips || compares))
                     : clips;
    return reads ? call_take_grads(frame, grads) : 0;
}

static int take_pair(arrays *in, arrays *out, PyObject *source, PyObject *target)
{
    if (arrays_take_one(in, source, false, "source") < 0)
        return -1;
    return arrays_take_one(out, target, true, "target");
}

/* Allowed at any time: in callbacks, and while another thread is inside the scaler. The GIL is kept, as the scale is
 * only ever changed with it. */
static PyObject *scaler_scale(PyObject *self, PyObject *args)
{
    PyObject *source, *target, *value = NULL;
    arrays in = {0}, out = {0};
    if (!PyArg_UnpackTuple(args, "scale", 2, 2, &source, &target))
        return NULL;
    if (take_pair(&in, &out, source, target) == 0) {
        gsc_status status = gsc_scaler_scale(scaler_core(self), in.tensors[0], out.tensors[0]);
        value = status == GSC_OK ? Py_BuildValue("") : raise_status(status);
    }
    arrays_free(&in);
    arrays_free(&out);
    return value;
}

static PyObject *scaler_unscale(PyObject *self, PyObject *args)
{
    PyObject *handle, *grads, *name;
    call_frame frame;
    if (!PyArg_UnpackTuple(args, "unscale", 3, 3, &handle, &grads, &name) ||
        call_begin(&frame, (py_scaler *)self, handle, name) < 0)
        return NULL;
    if (take_if_read(&frame, grads, false, false) == 0)
        CALL_CORE(&frame, gsc_scaler_unscale(scaler_core(self), frame_optimizer(&frame)));
    return call_end(&frame);
}

static PyObject *scaler_record(PyObject *self, PyObject *args)
{
    PyObject *handle, *found;
    call_frame frame;
    if (!PyArg_UnpackTuple(args, "record", 2, 2, &handle, &found))
        return NULL;
    int found_inf = PyObject_IsTrue(found);
    if (found_inf < 0 || call_begin(&frame, (py_scaler *)self, handle, NULL) < 0)
        return NULL;
    CALL_CORE(&frame, gsc_scaler_record(scaler_core(self), frame_optimizer(&frame), found_inf));
    return call_end(&frame);
}

static PyObject *scaler_step(PyObject *self, PyObject *args)
{
    PyObject *handle, *grads, *name, *step, *step_scaled, *clip_norm, *norm_type;
    gsc_step_args step_args = {0};
    call_frame frame;
    if (!PyArg_UnpackTuple(args, "step", 7, 7, &handle, &grads, &name, &step, &step_scaled, &clip_norm, &norm_type) ||
        number_to_double(clip_norm, "clip_norm", &step_args.clip_norm) < 0 ||
        number_to_double(norm_type, "norm_type", &step_args.clip_norm_type) < 0 ||
        call_begin(&frame, (py_scaler *)self, handle, name) < 0)
        return NULL;
    frame.step = step == Py_None ? NULL : step;
    frame.step_scaled = step_scaled == Py_None ? NULL : step_scaled;
    callbacks_offer_step_scaled(frame.handle, frame.step_scaled != NULL);
    if (take_if_read(&frame, grads, step_args.clip_norm > 0.0, true) == 0) {
        gsc_step_result result;
        CALL_CORE(&frame, gsc_scaler_step(scaler_core(self), frame_optimizer(&frame), &step_args, &result));
        if (frame.status == GSC_OK) {
            frame.handle->stepped_by = frame.scaler;
            frame.handle->result = result;
        }
    }
    return call_end(&frame);
}

static PyObject *scaler_clip_grad_norm(PyObject *self, PyObject *args)
{
    PyObject *handle, *grads, *name, *max_norm_object, *norm_type_object;
    double max_norm, norm_type, norm;
    call_frame frame;
    if (!PyArg_UnpackTuple(args, "clip_grad_norm", 5, 5, &handle, &grads, &name, &max_norm_object, &norm_type_object) ||
        number_to_double(max_norm_object, "max_norm", &max_norm) < 0 ||
        number_to_double(norm_type_object, "norm_type", &norm_type) < 0 ||
        call_begin(&frame, (py_scaler *)self, handle, name) < 0)
        return NULL;
    if (take_if_read(&frame, grads, true, false) == 0) {
        CALL_CORE(&frame,
                  gsc_scaler_clip_grad_norm(scaler_core(self), frame_optimizer(&frame), max_norm, norm_type, &norm));
        if (frame.status == GSC_OK)
            frame.value = PyFloat_FromDouble(norm);
    }
    return call_end(&frame);
}

static PyObject *scaler_skip(PyObject *self, PyObject *handle)
{
    call_frame frame;
    if (call_begin(&frame, (py_scaler *)self, handle, NULL) < 0)
        return NULL;
    CALL_CORE(&frame, gsc_scaler_skip(scaler_core(self), frame_optimizer(&frame)));
    return call_end(&frame);
}

static PyObject *scaler_rearm(PyObject *self, PyObject *handle)
{
    call_frame frame;
    if (call_begin(&frame, (py_scaler *)self, handle, NULL) < 0)
        return NULL;
    CALL_CORE(&frame, gsc_scaler_rearm(scaler_core(self), frame_optimizer(&frame)));
    return call_end(&frame);
}

static PyObject *scaler_forget(PyObject *self, PyObject *handle)
{
    call_frame frame;
    if (call_begin(&frame, (py_scaler *)self, handle, NULL) < 0)
        return NULL;
    CALL_CORE(&frame, gsc_scaler_forget(scaler_core(self), frame_optimizer(&frame)));
    if (frame.status == GSC_OK) {
        frame.handle->stepped_by = NULL;
        PySet_Discard(frame.scaler->handles, handle);
    }
    return call_end(&frame);
}

static PyObject *scaler_update(PyObject *self, PyObject *none)
{
    (void)none;
    call_frame frame;
    if (call_begin(&frame, (py_scaler *)self, NULL, NULL) < 0)
        return NULL;
    CALL_CORE(&frame, gsc_scaler_update(scaler_core(self)));
    return call_end(&frame);
}

static PyObject *scaler_enter(PyObject *self, PyObject *none)
{
    (void)none;
    if (call_claim((py_scaler *)self) < 0)
        return NULL;
    Py_INCREF(self);
    return self;
}

static PyObject *scaler_exit(PyObject *self, PyObject *exception)
{
    (void)exception;
    call_unclaim((py_scaler *)self);
    return Py_BuildValue("");
}

static PyObject *set_double(PyObject *self, PyObject *object, const char *what,
                            gsc_status (*set)(gsc_scaler *scaler, double value))
{
    double value;
    call_frame frame;
    if (number_to_double(object, what, &value) < 0 || call_begin(&frame, (py_scaler *)self, NULL, NULL) < 0)
        return NULL;
    CALL_CORE(&frame, set(scaler_core(self), value));
    return call_end(&frame);
}

static PyObject *scaler_update_to(PyObject *self, PyObject *new_scale)
{
    return set_double(self, new_scale, "new_scale", gsc_scaler_update_to);
}

static PyObject *scaler_set_growth_factor(PyObject *self, PyObject *value)
{
    return set_double(self, value, "growth_factor", gsc_scaler_set_growth_factor);
}

static PyObject *scaler_set_backoff_factor(PyObject *self, PyObject *value)
{
    return set_double(self, value, "backoff_factor", gsc_scaler_set_backoff_factor);
}

static PyObject *scaler_set_growth_interval(PyObject *self, PyObject *object)
{
    int64_t value;
    call_frame frame;
    if (number_to_int64(object, "growth_interval", &value) < 0 || call_begin(&frame, (py_scaler *)self, NULL, NULL) < 0)
        return NULL;
    CALL_CORE(&frame, gsc_scaler_set_growth_interval(scaler_core(self), value));
    return call_end(&frame);
}

static PyMethodDef methods[] = {{"__enter__", scaler_enter, METH_NOARGS, NULL},
                                {"__exit__", scaler_exit, METH_VARARGS, NULL},
                                {"scale", scaler_scale, METH_VARARGS, NULL},
                                {"unscale", scaler_unscale, METH_VARARGS, NULL},
                                {"record", scaler_record, METH_VARARGS, NULL},
                                {"step", scaler_step, METH_VARARGS, NULL},
                                {"clip_grad_norm", scaler_clip_grad_norm, METH_VARARGS, NULL},
                                {"skip", scaler_skip, METH_O, NULL},
                                {"rearm", scaler_rearm, METH_O, NULL},
                                {"forget", scaler_forget, METH_O, NULL},
                                {"update", scaler_update, METH_NOARGS, NULL},
                                {"update_to", scaler_update_to, METH_O, NULL},
                                {"get_scale", scaler_get_scale, METH_NOARGS, NULL},
                                {"get_growth_factor", scaler_get_growth_factor, METH_NOARGS, NULL},
                                {"get_backoff_factor", scaler_get_backoff_factor, METH_NOARGS, NULL},
                                {"get_growth_interval", scaler_get_growth_interval, METH_NOARGS, NULL},
                                {"is_enabled", scaler_is_enabled, METH_NOARGS, NULL},
                                {"set_growth_factor", scaler_set_growth_factor, METH_O, NULL},
                                {"set_backoff_factor", scaler_set_backoff_factor, METH_O, NULL},
                                {"set_growth_interval", scaler_set_growth_interval, METH_O, NULL},
                                {"get_stage", scaler_get_stage, METH_O, NULL},
                                {"found_inf", scaler_found_inf, METH_O, NULL},
                                {"result", scaler_result, METH_O, NULL},
                                {"overflows", scaler_overflows, METH_O, NULL},
                                {"stats", scaler_stats, METH_NOARGS, NULL},
                                {"state", scaler_state, METH_NOARGS, NULL},
                                {"load_state", scaler_load_state, METH_O, NULL},
                                {NULL, NULL, 0, NULL}};

int scaler_add_type(PyObject *module)
{
    static const char doc[] = "One scaler of the core. A call borrows the gradients that it is given and calls back.";
    static PyType_Slot slots[] = {{Py_tp_new, TYPE_SLOT(scaler_new)},
                                  {Py_tp_dealloc, TYPE_SLOT(scaler_dealloc)},
                                  {Py_tp_traverse, TYPE_SLOT(scaler_traverse)},
                                  {Py_tp_clear, TYPE_SLOT(scaler_clear)},
                                  {Py_tp_methods, methods},
                                  {Py_tp_doc, (void *)doc},
                                  {0, NULL}};
    static PyType_Spec spec = {.name = "gradscaler._core.Scaler",
                               .basicsize = sizeof(py_scaler),
                               .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                               .slots = slots};
    if (!type)
        type = (PyTypeObject *)PyType_FromSpec(&spec);
    return type ? module_add(module, "Scaler", (PyObject *)type) : -1;
}
