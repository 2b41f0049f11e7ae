/* emulator/kernel.h: what a PTX module becomes when it is loaded: kernels of decoded instructions, and
 * variables.
 *
 * Made by ptx_module.c from text, once, at cuModuleLoadData; immutable afterwards, apart from the addresses
 * of module variables, which are fixed before any kernel is decoded. Everything lives in the module's arena.
 */
#ifndef KILN_EMULATOR_KERNEL_H
#define KILN_EMULATOR_KERNEL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/map.h"

typedef struct emu_inst emu_inst_t;
typedef struct emu_source_map emu_source_map_t;
typedef struct emu_warp emu_warp_t;
typedef struct emu_block emu_block_t;
typedef struct emu_launch emu_launch_t;
typedef struct emu_worker emu_worker_t;
typedef struct emu_row_ops emu_row_ops_t;

/* Runs one instruction for the lanes of w->mask; returns the next one, or NULL to leave the warp's run loop.
 */
typedef const emu_inst_t *(*emu_exec_t)(emu_warp_t *w, const emu_inst_t *i);

typedef enum {
  EMU_CLASS_NONE, /* pseudo instructions and helpers that no GPU would run */
  EMU_CLASS_INTEGER,
  EMU_CLASS_F32,
  EMU_CLASS_F64,
  EMU_CLASS_HALF,
  EMU_CLASS_CONVERSION,
  EMU_CLASS_SPECIAL,
  EMU_CLASS_MEMORY,
  EMU_CLASS_CONTROL,
  EMU_CLASS_TENSOR,
  EMU_CLASS_COUNT
} emu_class_t;

typedef enum {
  EMU_SPACE_GENERIC,
  EMU_SPACE_GLOBAL,
  EMU_SPACE_SHARED,
  EMU_SPACE_LOCAL,
  EMU_SPACE_PARAM
} emu_space_t;

/* Where generic addresses of shared and local memory lie: above every host address. */
#define EMU_SHARED_WINDOW (1ull << 48)
#define EMU_LOCAL_WINDOW (1ull << 49)
#define EMU_WINDOW_BYTES (1ull << 32)
#define EMU_PARAM_WINDOW (EMU_LOCAL_WINDOW + EMU_WINDOW_BYTES)
/* A b128 register is two vectors of 8-byte lanes, the lower halves first: this many bytes apart. */
#define EMU_WIDE_HALF 256u
/* Where the addresses of functions lie: nothing can be loaded from them. */
#define EMU_FUNCTION_WINDOW (1ull << 50)

typedef enum { EMU_ROUND_NEAREST, EMU_ROUND_ZERO, EMU_ROUND_DOWN, EMU_ROUND_UP } emu_rounding_t;

/* Element types of matrix instructions. */
typedef enum {
  EMU_TENSOR_F64,
  EMU_TENSOR_F32,
  EMU_TENSOR_TF32,
  EMU_TENSOR_F16,
  EMU_TENSOR_BF16,
  EMU_TENSOR_E4M3,
  EMU_TENSOR_E5M2,
  EMU_TENSOR_S32,
  EMU_TENSOR_S8,
  EMU_TENSOR_U8,
  EMU_TENSOR_S4,
  EMU_TENSOR_U4,
  EMU_TENSOR_B1,
} emu_tensor_type_t;

typedef struct {
  uint32_t m, n, k; /* n of mma.sync is 8 and not used */
  emu_tensor_type_t d_type, a_type, b_type, c_type;
  uint32_t d_registers, a_registers, b_registers, c_registers;
  bool saturate;
  bool xor_popc;        /* of b1: xor, not and */
  bool a_column, b_row; /* of m8n8k4 of f16: A by columns, B by rows */
} emu_mma_t;

typedef enum {
  EMU_ATOMIC_ADD,
  EMU_ATOMIC_MIN,
  EMU_ATOMIC_MAX,
  EMU_ATOMIC_AND,
  EMU_ATOMIC_OR,
  EMU_ATOMIC_XOR,
  EMU_ATOMIC_EXCHANGE,
  EMU_ATOMIC_CAS,
  EMU_ATOMIC_INC,
  EMU_ATOMIC_DEC,
} emu_atomic_op_t;
typedef enum {
  EMU_ATOMIC_INTEGER,
  EMU_ATOMIC_F64,
  EMU_ATOMIC_F32,
  EMU_ATOMIC_F16,
  EMU_ATOMIC_BF16,
  EMU_ATOMIC_F16X2,
  EMU_ATOMIC_BF16X2,
} emu_atomic_type_t;

#define EMU_INLINE_ARGS 6

struct emu_inst {
  emu_exec_t fn;                 /* what the run loop calls */
  emu_exec_t base;               /* what a guard calls */
  emu_exec_t inner;              /* what a rounding mode calls */
  uint32_t arg[EMU_INLINE_ARGS]; /* frame offsets, results first */
  const uint32_t *args;          /* all of them, where there are more */
  const emu_inst_t *other;       /* cp.async: its reading half */
  const emu_mma_t *mma;
  uint32_t arg_count;
  uint32_t guard;   /* frame offset of the predicate, where guarded */
  uint32_t line;    /* of the PTX text */
  uint32_t target;  /* branch: program counter; leader: index of its basic block; memory: index of its site */
  int64_t offset;   /* memory: added to the address; elsewhere an immediate */
  uint8_t class;    /* emu_class_t */
  int8_t guarded;   /* 0, 1 for @p, -1 for @!p */
  uint8_t rounding; /* emu_rounding_t */
  bool flush;       /* .ftz */
  bool saturate;    /* .sat that the handler does itself */
  bool finite;      /* .satfinite: of a conversion */
  uint8_t space;    /* emu_space_t */
  uint8_t bytes;    /* memory: of one element */
  uint8_t vector;   /* memory: elements */
  uint8_t width;    /* lane bytes of the registers involved */
  uint8_t kind;     /* meaning is the handler's */
  uint8_t mode;     /* meaning is the handler's */
  bool is_signed;
  bool strong; /* volatile, relaxed, acquire: may wait for another block */
};

/* A basic block: what entering it once means for the counters. */
typedef struct {
  uint32_t first; /* program counter of its leader */
  uint32_t instructions;
  uint32_t of_class[EMU_CLASS_COUNT];
} emu_basic_block_t;

typedef struct {
  const char *name;
  uint32_t offset, bytes, align;
} emu_param_t;

/* What a call within a cycle of calls keeps, for the caller's return: the registers of all functions that are
 * in cycles, and their parameters and variables in local memory. */
typedef struct {
  uint32_t offset, width; /* width: lane bytes, 0 for a predicate */
} emu_saved_slot_t;
typedef struct {
  uint32_t offset, bytes;
} emu_saved_range_t;
typedef struct {
  emu_saved_slot_t *slots;
  size_t slot_count, slot_capacity;
  emu_saved_range_t *ranges;
  size_t range_count, range_capacity;
  uint32_t record_bytes; /* of one lane */
  uint32_t result_bytes; /* the most that a call gives back */
  uint32_t frame_bytes;  /* what a call takes of the modelled stack */
} emu_saved_t;

/* A constant operand: every lane of its frame vector holds `bits`. */
typedef struct {
  uint32_t offset;
  uint32_t width; /* 4 or 8; 0 for a predicate mask */
  uint64_t bits;
} emu_constant_t;

/* Special registers; a kernel has frame vectors for those that it reads. */
/* clang-format off */
#define EMU_SPECIALS(X) \
  X(TID_X, "%tid.x") \
  X(TID_Y, "%tid.y") \
  X(TID_Z, "%tid.z") \
  X(NTID_X, "%ntid.x") \
  X(NTID_Y, "%ntid.y") \
  X(NTID_Z, "%ntid.z") \
  X(CTAID_X, "%ctaid.x") \
  X(CTAID_Y, "%ctaid.y") \
  X(CTAID_Z, "%ctaid.z") \
  X(NCTAID_X, "%nctaid.x") \
  X(NCTAID_Y, "%nctaid.y") \
  X(NCTAID_Z, "%nctaid.z") \
  X(LANEID, "%laneid") \
  X(WARPID, "%warpid") \
  X(NWARPID, "%nwarpid") \
  X(SMID, "%smid") \
  X(NSMID, "%nsmid") \
  X(GRIDID, "%gridid") \
  X(LANEMASK_EQ, "%lanemask_eq") \
  X(LANEMASK_LE, "%lanemask_le") \
  X(LANEMASK_LT, "%lanemask_lt") \
  X(LANEMASK_GE, "%lanemask_ge") \
  X(LANEMASK_GT, "%lanemask_gt") \
  X(DYNAMIC_SMEM_SIZE, "%dynamic_smem_size") \
  X(TOTAL_SMEM_SIZE, "%total_smem_size") \
  X(AGGR_SMEM_SIZE, "%aggr_smem_size") \
  X(CLUSTERID_X, "%clusterid.x") \
  X(CLUSTERID_Y, "%clusterid.y") \
  X(CLUSTERID_Z, "%clusterid.z") \
  X(NCLUSTERID_X, "%nclusterid.x") \
  X(NCLUSTERID_Y, "%nclusterid.y") \
  X(NCLUSTERID_Z, "%nclusterid.z") \
  X(CLUSTER_CTARANK, "%cluster_ctarank") \
  X(CLUSTER_NCTARANK, "%cluster_nctarank") \
  X(CLUSTER_CTAID_X, "%cluster_ctaid.x") \
  X(CLUSTER_CTAID_Y, "%cluster_ctaid.y") \
  X(CLUSTER_CTAID_Z, "%cluster_ctaid.z") \
  X(CLUSTER_NCTAID_X, "%cluster_nctaid.x") \
  X(CLUSTER_NCTAID_Y, "%cluster_nctaid.y") \
  X(CLUSTER_NCTAID_Z, "%cluster_nctaid.z")
/* Special registers that change while a warp runs: an instruction reads them. */
#define EMU_CLOCKS(X) \
  X(COUNT, "%clock") \
  X(COUNT64, "%clock64") \
  X(COUNT_HIGH, "%clock_hi") \
  X(TIME, "%globaltimer") \
  X(TIME_LOW, "%globaltimer_lo") \
  X(TIME_HIGH, "%globaltimer_hi")

typedef enum {
#define EMU_SPECIAL(name, text) EMU_SPECIAL_##name,
  EMU_SPECIALS(EMU_SPECIAL)
#undef EMU_SPECIAL
  EMU_SPECIAL_COUNT
} emu_special_t;
typedef enum {
#define EMU_CLOCK(name, text) EMU_CLOCK_##name,
  EMU_CLOCKS(EMU_CLOCK)
#undef EMU_CLOCK
} emu_clock_t;
/* clang-format on */

typedef struct {
  const char *name;
  const emu_source_map_t *source; /* of its module: the CUDA lines */
  emu_inst_t *code;
  uint32_t code_count;
  emu_basic_block_t *blocks;
  uint32_t block_count;
  emu_inst_t *setup; /* run once when a warp's frame is set up: loads of parameters */
  uint32_t setup_count;
  emu_constant_t *constants;
  uint32_t constant_count;
  uint32_t special_offset[EMU_SPECIAL_COUNT]; /* 0: not read */
  uint32_t frame_bytes;
  emu_param_t *params;
  uint32_t param_count, param_bytes;
  uint32_t shared_bytes; /* static */
  uint32_t local_bytes;  /* per thread */
  uint32_t site_count;   /* memory instructions */
  uint32_t max_threads;  /* .maxntid, else 1024 */
  emu_saved_t saved;     /* empty without recursion */
  uint32_t register_estimate;
  bool may_wait; /* has strong loads or atomics with results */
} emu_kernel_t;

/* A module-scope variable in global or constant memory. */
typedef struct {
  const char *name;
  uint64_t address, bytes;
} emu_variable_t;

#endif
