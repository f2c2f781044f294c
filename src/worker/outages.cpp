#include "worker/outages.h"

#include "base/monotonic.h"
#include "pg/prelude.h"

namespace outbox::worker {

int DetailOfEnd(const PastTrouble& over, int64_t now) {
  const double works = static_cast<double>(now - over.ended) / kSecond;
  const double all = static_cast<double>(over.total) / kSecond;
  return over.outages > 1 ? errdetail(
                                "It was in trouble %d times within %.1f s; this is the last of them, and ended %.1f s "
                                "before this line.",
                                over.outages, all, works)
                          : errdetail("Its trouble ended %.1f s before this line.", works);
}

}  // namespace outbox::worker
