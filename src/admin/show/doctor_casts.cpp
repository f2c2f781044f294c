// What outbox.doctor() says of casts that leave a call of outbox.emit() more than one form of it [P]. PostgreSQL fails
// such a call before outbox hears of it, and its error names no cast.
#include "admin/show/doctor.h"

namespace outbox::admin {

namespace {

// Implicit ones that are not PostgreSQL's own (oids from 16384 on): from what a key is given as to what another form
// takes. Whole numbers become bigint by themselves, and text becomes varchar: an implicit cast is a second way. What is
// bigint, uuid or varchar has a form of its own, whatever there is else.
constexpr const char* kCasts = R"(
SELECT string_agg(f.named, ', ' ORDER BY f.named), string_agg(format('DROP CAST (%s);', f.named), ' ' ORDER BY f.named)
FROM pg_cast c, LATERAL (SELECT format('%s AS %s', format_type(c.castsource, NULL), format_type(c.casttarget, NULL))) f (named)
WHERE c.castcontext = 'i' AND c.oid >= 16384
  AND c.castsource = ANY ($1::regtype[]) AND c.casttarget = ANY ($2::regtype[]))";

void Tell(const char* of, const char* to, const char* whose, const char* write, Findings* findings) {
  const Row row = RunSql(Access::kRead, kCasts, {Cell(of), Cell(to)})[0];
  if (row[0]) {
    findings->Note("casts",
                   std::string(whose) + " of outbox.emit() and its like here (function ... is not unique, 42725), by " +
                       "casts that were made implicit: " + *row[0] + ".",
                   std::string("Write the key as ") + write + ". Or, if nothing needs them: " + *row[1]);
  }
}

}  // namespace

// Says nothing where there are none.
void CheckCasts(Findings* findings) {
  Tell("{smallint,integer}", "{text,varchar,uuid}", "A key that is an integer or a smallint fits more than one form",
       "42::bigint, or as a text, '42'", findings);
  Tell("{text}", "{bigint,uuid}",
       "A key of type text, beside a payload or headers that are text or json, fits more "
       "than one form",
       "$1::varchar", findings);
}

}  // namespace outbox::admin
