/* client/array.c: tensors between an execution's reply, its caller, and DLPack.
 *
 * A reply's outputs are shown where they lie in its bytes. DLPack's structs are declared here as its header
 * (dmlc/dlpack, include/dlpack/dlpack.h, version 0.8) has them: they are an ABI and do not change.
 */
#include "client/reply.h"

#include "ir/dtype.h"
#include <stdlib.h>
#include <string.h>

/* -- a reply's outputs ---------------------------------------------------------------------------------- */

static const kiln_mpack_t *outputs_of(const kiln_reply_t *reply) {
  return kiln_mpack_find(kiln_reply_result(reply), "outputs");
}

uint32_t kiln_reply_output_count(const kiln_reply_t *reply) {
  const kiln_mpack_t *outputs = outputs_of(reply);
  return outputs ? (uint32_t)kiln_mpack_count(outputs) : 0;
}

static bool read_integers(const kiln_mpack_t *list, uint32_t *out_count, int64_t *out) {
  if (!list || kiln_mpack_kind(list) != KILN_MPACK_ARRAY || kiln_mpack_count(list) > KILN_ARRAY_MAX_RANK)
    return false;
  *out_count = (uint32_t)kiln_mpack_count(list);
  for (uint32_t i = 0; i < *out_count; i++)
    if (!kiln_mpack_get_int(kiln_mpack_item(list, i), &out[i])) return false;
  return true;
}

/* The library's own name of a dtype, which outlives any reply. */
static const char *dtype_name(const kiln_mpack_t *value) {
  const char *text;
  size_t length;
  kiln_dtype_t dtype;
  bool known = value && kiln_mpack_get_str(value, &text, &length) && kiln_dtype_parse(text, length, &dtype);
  return known ? kiln_dtype_name(dtype) : NULL;
}

static bool read_array(const kiln_mpack_t *tensor, kiln_array_t *out) {
  const kiln_mpack_t *strides = kiln_mpack_find(tensor, "strides");
  const kiln_mpack_t *data = kiln_mpack_find(tensor, "data");
  const void *bytes;
  uint32_t stride_count = 0;
  *out =
      (kiln_array_t){.dtype = dtype_name(kiln_mpack_find(tensor, "dtype")), .has_strides = strides != NULL};
  if (!out->dtype || !read_integers(kiln_mpack_find(tensor, "shape"), &out->rank, out->shape)) return false;
  if (strides && (!read_integers(strides, &stride_count, out->strides) || stride_count != out->rank))
    return false;
  if (!data || !kiln_mpack_get_bin(data, &bytes, &out->size_bytes)) return false;
  out->data = (void *)bytes;
  return true;
}

kiln_status_t kiln_reply_output(const kiln_reply_t *reply, uint32_t index, kiln_array_t *out_array) {
  if (index >= kiln_reply_output_count(reply))
    return kiln_error(KILN_INVALID_ARGUMENT, "the reply has %u outputs, there is no %u",
                      kiln_reply_output_count(reply), index);
  if (read_array(kiln_mpack_item(outputs_of(reply), index), out_array)) return NULL;
  return kiln_error(KILN_INTERNAL, "output %u of the daemon's reply is malformed", index);
}

/* -- DLPack --------------------------------------------------------------------------------------------- */

enum { DL_CPU = 1, DL_CUDA_HOST = 3 };                                      /* DLDeviceType */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 }; /* DLDataTypeCode */

typedef struct {
  int32_t device_type, device_id;
} dl_device_t;

typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} dl_data_type_t;

typedef struct {
  void *data;
  dl_device_t device;
  int32_t ndim;
  dl_data_type_t dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: dense row-major */
  uint64_t byte_offset;
} dl_tensor_t;

struct DLManagedTensor {
  dl_tensor_t dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
};

static const struct {
  const char *dtype;
  uint8_t code, bits;
} data_types[] = {
    {"bool", DL_BOOL, 8},    {"u8", DL_UINT, 8},    {"i8", DL_INT, 8},
    {"i32", DL_INT, 32},     {"i64", DL_INT, 64},   {"f16", DL_FLOAT, 16},
    {"bf16", DL_BFLOAT, 16}, {"f32", DL_FLOAT, 32}, {"f64", DL_FLOAT, 64},
};
enum { DATA_TYPE_COUNT = sizeof data_types / sizeof *data_types };

static const char *find_dtype(const dl_data_type_t *type) {
  for (size_t i = 0; i < DATA_TYPE_COUNT && type->lanes == 1; i++)
    if (data_types[i].code == type->code && data_types[i].bits == type->bits) return data_types[i].dtype;
  return NULL;
}

static kiln_status_t check_tensor(const dl_tensor_t *tensor) {
  if (tensor->device.device_type != DL_CPU && tensor->device.device_type != DL_CUDA_HOST)
    return kiln_error(KILN_UNSUPPORTED, "the DLPack tensor is on device type %d: copy it to the CPU first",
                      tensor->device.device_type);
  if (tensor->ndim < 0 || tensor->ndim > KILN_ARRAY_MAX_RANK)
    return kiln_error(KILN_UNSUPPORTED, "the DLPack tensor has rank %d, above %d", tensor->ndim,
                      KILN_ARRAY_MAX_RANK);
  if (!find_dtype(&tensor->dtype))
    return kiln_error(KILN_UNSUPPORTED, "no dtype has DLPack's code %u with %u bits and %u lanes",
                      tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes);
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] < 0 || (tensor->strides && tensor->strides[d] < 0))
      return kiln_error(KILN_UNSUPPORTED, "the DLPack tensor has a negative size or stride at axis %d", d);
  return NULL;
}

static bool is_empty(const kiln_array_t *array) {
  for (uint32_t d = 0; d < array->rank; d++)
    if (!array->shape[d]) return true;
  return false;
}

/* Bytes from the first to the last element; false when they leave 63 bits. */
static bool storage_bytes(const kiln_array_t *array, int64_t element_bytes, size_t *out) {
  int64_t elements = 1, dense = 1, reach;
  for (uint32_t d = array->rank; d-- > 0 && !is_empty(array);) {
    int64_t stride = array->has_strides ? array->strides[d] : dense;
    if (__builtin_mul_overflow(array->shape[d] - 1, stride, &reach) ||
        __builtin_add_overflow(elements, reach, &elements))
      return false;
    dense = elements; /* of what lies row-major so far */
  }
  int64_t bytes;
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) return false;
  *out = is_empty(array) ? 0 : (size_t)bytes;
  return true;
}

kiln_status_t kiln_array_from_dlpack(const struct DLManagedTensor *managed, kiln_array_t *out_array) {
  const dl_tensor_t *tensor = &managed->dl_tensor;
  KILN_TRY(check_tensor(tensor));
  *out_array = (kiln_array_t){.dtype = find_dtype(&tensor->dtype),
                              .rank = (uint32_t)tensor->ndim,
                              .has_strides = tensor->strides != NULL,
                              .data = (char *)tensor->data + tensor->byte_offset};
  for (uint32_t d = 0; d < out_array->rank; d++) {
    out_array->shape[d] = tensor->shape[d];
    if (tensor->strides) out_array->strides[d] = tensor->strides[d];
  }
  if (storage_bytes(out_array, tensor->dtype.bits / 8, &out_array->size_bytes)) return NULL;
  return kiln_error(KILN_TOO_LARGE, "the DLPack tensor's storage leaves 63 bits");
}

/* What a tensor for DLPack's users stands on. */
typedef struct {
  struct DLManagedTensor managed; /* first: the deleter gets its address */
  kiln_array_t array;
  kiln_reply_t *reply;
} export_t;

static void delete_export(struct DLManagedTensor *managed) {
  export_t *exported = (export_t *)managed;
  kiln_reply_free(exported->reply);
  free(exported);
}

kiln_status_t kiln_reply_output_dlpack(kiln_reply_t *reply, uint32_t index,
                                       struct DLManagedTensor **out_tensor) {
  kiln_array_t array;
  KILN_TRY(kiln_reply_output(reply, index, &array));
  export_t *exported = calloc(1, sizeof *exported);
  if (!exported) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a DLPack tensor");
  exported->array = array;
  exported->reply = reply;
  kiln_reply_retain(reply);
  dl_tensor_t *tensor = &exported->managed.dl_tensor;
  *tensor = (dl_tensor_t){.data = array.data,
                          .device = {DL_CPU, 0},
                          .ndim = (int32_t)array.rank,
                          .shape = exported->array.shape,
                          .strides = array.has_strides ? exported->array.strides : NULL};
  for (size_t i = 0; i < DATA_TYPE_COUNT; i++)
    if (!strcmp(data_types[i].dtype, array.dtype))
      tensor->dtype = (dl_data_type_t){data_types[i].code, data_types[i].bits, 1};
  exported->managed.manager_ctx = reply;
  exported->managed.deleter = delete_export;
  *out_tensor = &exported->managed;
  return NULL;
}
