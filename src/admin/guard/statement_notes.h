// What triggers of rows note for the trigger that ends their statement [P]. (A transition table would be filled for
// workers, too.) An error may have left notes of a statement that was never ended: they are of no other transaction, or
// savepoint, than the one they were made in. Plain.
#pragma once

#include "pg/transaction.h"

namespace outbox::admin {

template <typename Notes>
class StatementNotes {
 public:
  // Those of the statement under way; nullptr: there are none.
  Notes* Current() {
    const bool same = transaction_ == pg::CurrentTransaction() && subtransaction_ == GetCurrentSubTransactionId();
    return same ? &notes_ : nullptr;
  }
  // Begins them if there are none.
  Notes* Begun() {
    if (Current() == nullptr) {
      Begin({});
    }
    return &notes_;
  }
  void Begin(const Notes& notes) {
    transaction_ = pg::CurrentTransaction();
    subtransaction_ = GetCurrentSubTransactionId();
    notes_ = notes;
  }
  // Ends them. All zero: there were none.
  Notes Take() {
    const Notes* current = Current();
    const Notes taken = current != nullptr ? *current : Notes{};
    transaction_ = InvalidLocalTransactionId;
    return taken;
  }

 private:
  LocalTransactionId transaction_ = InvalidLocalTransactionId;
  SubTransactionId subtransaction_ = InvalidSubTransactionId;
  Notes notes_ = {};
};

}  // namespace outbox::admin
