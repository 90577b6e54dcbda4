/* A request inside the gate. Private to gate*.c. */
#ifndef BW_GATE_REQUEST_H
#define BW_GATE_REQUEST_H
#include "gate.h"

typedef struct gate_class { /* one label set named by this request */
    bw_class_id id;
    bw_str canonical;
} gate_class;

typedef struct gate_request {
    bw_request pub; /* first: handlers' pointer is ours */
    const bw_key_record *key;
    bw_caller caller;
    bw_audit_record record;
    bw_map *given; /* bytes of a given label set -> 1 + index in classes */
    gate_class *classes;
    size_t nclasses, cap_classes;
    const bw_permitted **held; /* sets that this request was given; released at its end */
    size_t nheld, cap_held;
} gate_request;

static inline gate_request *gate_of(bw_request *r)
{
    return (gate_request *)(void *)r;
}

/* ManageCollection, ReadAudit, Admin on a collection or the cell. BW_EDENIED with the
 * message `Forbidden: …` (a 403); recorded. */
BW_MUST_USE bw_status bw_gate__object(bw_request *r, bw_action action, const char *kind,
                                      bw_str name);
void bw_gate__question(const bw_request *r, bw_action action, bw_question *out);
/* The classes that the request named, into its record. */
BW_MUST_USE bw_status bw_gate__name_classes(gate_request *g);
void bw_gate__clear(gate_request *g);
/* The 451, recorded. stored: something has had that class, so the log need not keep its
 * labels. */
bw_status bw_gate__denied(bw_request *r, bw_action action, const bw_class_id *class_id,
                          bw_str labels, bool stored, const bw_decision *d);
#endif
