/* passes/company.c: the cost rule of horizontal groups: who gains by sharing a launch?
 *
 * Asked by passes/horizontal.c for groups of one class that could all run now. The model, in numbers:
 *
 * 1. A device runs slots = SMs x blocks per SM at once. A launch costs LAUNCH_NS, and then the larger of
 *    - its waves: ceil(blocks / slots) times the time of a block, on average over its members, and no less
 *      than the longest block;
 *    - its traffic: bytes / memory bandwidth.
 * 2. So company saves launches, and it fills waves: 20 tiles on 132 SMs leave 112 idle, and seven such
 * members take as long as one. It saves nothing else. A member that has many waves of its own saves one
 * launch and part of one wave, next to its own time nothing at all.
 * 3. From the smallest to the largest, a member joins when that saves at least LEAST_GAIN of the time that it
 *    takes alone. Below that the model is not to be trusted, and a kernel alone has the tile that suits it.
 *
 * Since (3) refuses whatever would lose, a group is never modelled slower than its members one by one.
 *
 * LAUNCH_NS: what a kernel costs beyond its work. NVIDIA's measurements ("Getting Started with CUDA Graphs",
 * 2019): kernels of 2.9 us take 3.8 us each from a stream that is kept full, 3.4 us in a graph, 9.6 us when
 * the host waits for each. So 0.5 to 6.7 us; 3 us is near the middle, and where 1 % of a kernel of 300 us
 * lies. Block times are the families'.
 */
#include <math.h>
#include <stdlib.h>

#include "passes/horizontal.h"

static const double least_gain = 0.01;

/* What is summed over the members of a launch. */
typedef struct {
  double blocks, block_ns_sum, longest_ns, bytes;
  double slots; /* fewest of any member: a kernel has one size of block */
} load_t;

static load_t with(load_t load, const kiln_target_t *target, const kiln_member_class_t *member) {
  double slots = (double)target->sm_count * (member->blocks_per_sm ? member->blocks_per_sm : 1);
  load.blocks += member->blocks;
  load.block_ns_sum += member->blocks * member->block_ns;
  load.longest_ns = fmax(load.longest_ns, member->block_ns);
  load.bytes += member->bytes;
  load.slots = load.slots > 0 ? fmin(load.slots, slots) : slots;
  return load;
}

/* (1) */
static double time_of(const kiln_target_t *target, const load_t *load) {
  if (load->blocks <= 0) return LAUNCH_NS;
  double waves = ceil(load->blocks / load->slots) * (load->block_ns_sum / load->blocks);
  double memory_ns = target->memory_gb_per_s ? load->bytes / target->memory_gb_per_s : 0;
  return LAUNCH_NS + fmax(fmax(waves, load->longest_ns), memory_ns);
}

double launch_ns(const kiln_target_t *target, const kiln_member_class_t *const *members, uint32_t count) {
  load_t load = {0};
  for (uint32_t i = 0; i < count; i++) load = with(load, target, members[i]);
  return time_of(target, &load);
}

typedef struct {
  double alone_ns;
  uint32_t index;
} candidate_t;

static int by_time(const void *a, const void *b) {
  const candidate_t *x = a, *y = b;
  if (x->alone_ns != y->alone_ns) return x->alone_ns < y->alone_ns ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* (3) */
uint32_t find_loners(kiln_arena_t *arena, const kiln_target_t *target,
                     const kiln_member_class_t *const *members, uint32_t count, bool *out_is_alone) {
  candidate_t *order = KILN_NEW_ARRAY(arena, candidate_t, count);
  for (uint32_t i = 0; i < count; i++) order[i] = (candidate_t){launch_ns(target, &members[i], 1), i};
  qsort(order, count, sizeof *order, by_time);
  load_t together = with((load_t){0}, target, members[order[0].index]);
  uint32_t alone = 0;
  for (uint32_t i = 1; i < count; i++) {
    load_t more = with(together, target, members[order[i].index]);
    double added_ns = time_of(target, &more) - time_of(target, &together);
    bool gains = order[i].alone_ns - added_ns >= least_gain * order[i].alone_ns;
    out_is_alone[order[i].index] = !gains;
    alone += !gains;
    if (gains) together = more;
  }
  if (alone + 1 == count) out_is_alone[order[0].index] = true;
  return alone + (alone + 1 == count);
}
