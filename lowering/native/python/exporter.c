/* A base class whose instances have the buffer protocol by their method __buffer__.

   Python 3.12 gives it to every class (PEP 688); before, only C can.  Nothing but the stable ABI is
   used, declared here, so that no headers of Python are needed; whoever loads this library
   (exporter.py) has the functions. */
#include <stddef.h>

typedef struct _object PyObject;
typedef struct {
  void *buf;
  PyObject *obj; /* who holds the memory; NULL where there is none */
} Py_buffer;     /* its first fields: the others are filled by PyObject_GetBuffer */
typedef struct {
  int slot;
  void *function;
} PyType_Slot;
typedef struct {
  const char *name;
  int basicsize, itemsize;
  unsigned int flags;
  PyType_Slot *slots;
} PyType_Spec;

extern PyObject *PyType_FromSpec(PyType_Spec *spec);
extern PyObject *PyObject_CallMethod(PyObject *self, const char *name, const char *format, ...);
extern int PyObject_GetBuffer(PyObject *exporter, Py_buffer *view, int flags);
extern void Py_DecRef(PyObject *object);
extern void PyErr_Fetch(PyObject **type, PyObject **value, PyObject **traceback);
extern void PyErr_Restore(PyObject *type, PyObject *value, PyObject *traceback);

enum { BF_GETBUFFER = 1, BASETYPE = 1 << 10 }; /* Py_bf_getbuffer, Py_TPFLAGS_BASETYPE */

/* PyTorch asks again, for a view that it may not write, with its first refusal still set: no Python
   code may run then, so it is kept aside. */
static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *memory = PyObject_CallMethod(self, "__buffer__", "i", flags);
  view->obj = NULL;
  int failed = memory == NULL ? -1 : PyObject_GetBuffer(memory, view, flags);
  Py_DecRef(memory); /* (the view holds it; nothing for NULL) */
  if (!failed) {
    PyErr_Restore(type, value, traceback);
    return 0;
  }
  Py_DecRef(type);
  Py_DecRef(value);
  Py_DecRef(traceback);
  return -1;
}

__attribute__((visibility("default"))) PyObject *calque_exporter(void) {
  static PyType_Slot slots[] = {{BF_GETBUFFER, (void *)get_buffer}, {0, NULL}};
  static PyType_Spec spec = {"calque.lowering.native.exporter.Exporter", 0, 0, BASETYPE, slots};
  return PyType_FromSpec(&spec);
}
