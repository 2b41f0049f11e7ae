/* passes/simplify.h: the rules of simplify_rules.def: each may change the draft into one with the same
 * result, and says whether it did. A rule looks at the draft and at the nodes that made its operands, no
 * further. Inside passes/ only. */
#ifndef KILN_PASSES_SIMPLIFY_H
#define KILN_PASSES_SIMPLIFY_H

#include "passes/rewrite.h"

typedef bool (*simplify_rule_t)(rewrite_t *rw, draft_t *draft);

#define KILN_RULE(op, function, text) bool simplify_##function(rewrite_t *rw, draft_t *draft);
#include "passes/simplify_rules.def"
#undef KILN_RULE

#endif
