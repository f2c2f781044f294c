#include "worker/destination_config.h"

#include <initializer_list>
#include <utility>

#include "admin/lookup/option_list.h"
#include "admin/lookup/used_mapping.h"
#include "log/loss/pg_server_runs.h"
#include "pg/descriptors.h"
#include "pg/library_directory.h"
#include "pg/log_line.h"
#include "pg/transaction.h"
#include "sink/options.h"
#include "sink/process_sink.h"
#include "sink/spawn.h"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
}

namespace outbox::worker {

namespace {

struct RawServer {
  Oid oid = InvalidOid;
  std::string wrapper;
  sink::OptionList server;
  sink::OptionList mapping;
};

// One row of a catalog by its index. Not through the caches: workers are told of a change when it is committed, a
// moment before the messages go out that empty caches, and what is read then counts until the next change.
class Lookup {
 public:
  Lookup(Oid catalog, Oid index, std::initializer_list<std::pair<AttrNumber, Datum>> keys, RegProcedure equal)
      : relation_(table_open(catalog, AccessShareLock)), snapshot_(RegisterSnapshot(GetLatestSnapshot())) {
    ScanKeyData scan_keys[2];
    int count = 0;
    for (const auto& [column, value] : keys) {
      ScanKeyInit(&scan_keys[count++], column, BTEqualStrategyNumber, equal, value);
    }
    scan_ = systable_beginscan(relation_, index, true, snapshot_, count, scan_keys);
    tuple_ = systable_getnext(scan_);
  }
  bool found() const { return HeapTupleIsValid(tuple_); }
  template <typename Form>
  Form row() const {
    return reinterpret_cast<Form>(GETSTRUCT(tuple_));
  }
  void Options(int column, const sink::SinkKind* kind, sink::OptionList* out) const {
    bool null = true;
    Datum options = heap_getattr(tuple_, column, RelationGetDescr(relation_), &null);
    if (!null) {
      admin::AppendOptions(untransformRelOptions(options), kind, out);
    }
  }
  // No destructor: an error jumps over this, and its transaction closes all.
  void Close() {
    systable_endscan(scan_);
    UnregisterSnapshot(snapshot_);
    table_close(relation_, AccessShareLock);
  }

 private:
  Relation relation_;
  Snapshot snapshot_;
  SysScanDesc scan_;
  HeapTuple tuple_;
};

bool ReadMapping(Oid user, Oid server, const sink::SinkKind* kind, sink::OptionList* out) {
  Lookup mapping(UserMappingRelationId, UserMappingUserServerIndexId,
                 {{Anum_pg_user_mapping_umuser, ObjectIdGetDatum(user)},
                  {Anum_pg_user_mapping_umserver, ObjectIdGetDatum(server)}},
                 F_OIDEQ);
  const bool found = mapping.found();
  if (found) {
    mapping.Options(Anum_pg_user_mapping_umoptions, kind, out);
  }
  mapping.Close();
  return found;
}

void ReadServer(const char* name, Oid extension_owner, RawServer* raw) {
  NameData padded;
  namestrcpy(&padded, name);
  Lookup server(ForeignServerRelationId, ForeignServerNameIndexId,
                {{Anum_pg_foreign_server_srvname, NameGetDatum(&padded)}}, F_NAMEEQ);
  if (!server.found()) {
    server.Close();
    return;
  }
  const auto* row = server.row<Form_pg_foreign_server>();
  const Oid owner = row->srvowner;
  raw->oid = row->oid;
  Lookup wrapper(ForeignDataWrapperRelationId, ForeignDataWrapperOidIndexId,
                 {{Anum_pg_foreign_data_wrapper_oid, ObjectIdGetDatum(row->srvfdw)}}, F_OIDEQ);
  if (wrapper.found()) {
    raw->wrapper.assign(NameStr(wrapper.row<Form_pg_foreign_data_wrapper>()->fdwname));
  }
  wrapper.Close();
  const sink::SinkKind* kind = sink::FindKind(raw->wrapper);
  server.Options(Anum_pg_foreign_server_srvoptions, kind, &raw->server);
  server.Close();
  for (Oid role : admin::RolesOfMapping(owner, extension_owner)) {
    if (ReadMapping(role, raw->oid, kind, &raw->mapping)) {
      break;
    }
  }
}

DestinationConfig Check(const std::string& name, const RawServer& raw) {
  DestinationConfig config;
  config.oid = raw.oid;
  config.name = name;
  if (raw.oid == InvalidOid) {
    config.problem = {ErrorClass::kConfig, "NO_SERVER", "foreign server \"" + name + "\" does not exist"};
    return config;
  }
  const sink::SinkKind* kind = sink::FindKind(raw.wrapper);
  if (kind == nullptr) {
    config.problem = {ErrorClass::kConfig, "NOT_OURS", "server \"" + name + "\" belongs to wrapper " + raw.wrapper};
    return config;
  }
  config.kind = kind;
  sink::OptionProblem problem = sink::MergeOptions(*kind, raw.server, raw.mapping, &config.options);
  if (!problem.ok()) {
    config.problem = {ErrorClass::kConfig, "BAD_OPTION", problem.message};
  }
  return config;
}

// Writes a line for a sink that runs inside the worker: must not throw.
void WriteLogLine(std::string_view line, const char* destination) {
  try {
    int size = static_cast<int>(line.size());
    const char* text = line.data();
    pg::Guard([size, text, destination] {
      ereport(LOG, (errmsg_internal("outbox event: %.*s", size, text), errhidestmt(true),
                    pg::LogEvent("event", {{"destination", destination}})));
    });
  } catch (const pg::PgError& error) {
    pg::DropError(error);
  } catch (...) {
  }
}

// Takes the place of the sink of a destination that cannot be used as it is configured.
class UnusableSink final : public sink::Sink {
 public:
  explicit UnusableSink(Error error) { health_ = {false, std::move(error), 1}; }

  void Submit(sink::Batch batch) override {
    sink::Result result;
    result.flow = batch.flow;
    result.first_seq = batch.first_seq;
    result.count = batch.count;
    result.outcome = sink::Outcome::kAborted;
    result.unsent = true;
    results_.push_back(std::move(result));
  }
  void Poll(std::vector<sink::Result>* results) override {
    for (sink::Result& result : results_) {
      results->push_back(std::move(result));
    }
    results_.clear();
  }
  void AppendWaits(std::vector<sink::WaitSpec>*) override {}
  const sink::Health& health() const override { return health_; }
  void Close() override { results_.clear(); }

 private:
  sink::Health health_;
  std::vector<sink::Result> results_;
};

std::string ProgramOf(const sink::SinkKind& kind) {
  return pg::LibraryDirectory() + "/" + kind.program;
}

}  // namespace

bool DestinationConfig::operator==(const DestinationConfig& other) const {
  return oid == other.oid && name == other.name && kind == other.kind && options == other.options &&
         problem.code == other.problem.code && problem.message == other.problem.message;
}

std::vector<DestinationConfig> LoadDestinations(const std::vector<std::string>& names, uint32_t owner) {
  std::vector<RawServer> raw(names.size());
  pg::InTransaction(CurrentMemoryContext, [&] {
    for (size_t i = 0; i < names.size(); i++) {
      ReadServer(names[i].c_str(), owner, &raw[i]);
    }
  });
  std::vector<DestinationConfig> configs;
  for (size_t i = 0; i < names.size(); i++) {
    configs.push_back(Check(names[i], raw[i]));
  }
  return configs;
}

std::unique_ptr<relay::ServerRuns> MakeServerRuns(const DestinationConfig& config) {
  if (!config.problem.ok() || config.kind->resends_lost == nullptr) {
    return nullptr;
  }
  return std::make_unique<log::PgServerRuns>(config.name, config.kind->resends_lost(config.options));
}

void KeepSinkPrograms() {
  for (const sink::SinkKind* kind : sink::Kinds()) {
    if (kind->program != nullptr) {
      sink::KeepProgram(ProgramOf(*kind));
    }
  }
}

void CountSinkDescriptors() {
  sink::SetDescriptorKeeper({pg::TakeDescriptors, pg::GiveBackDescriptors, pg::CloseDataFiles});
}

std::unique_ptr<sink::Sink> MakeSink(const DestinationConfig& config, const SinkLimits& limits) {
  if (!config.problem.ok()) {
    return std::make_unique<UnusableSink>(config.problem);
  }
  if (config.kind->make != nullptr) {
    return config.kind->make(config.options,
                             [name = config.name](std::string_view line) { WriteLogLine(line, name.c_str()); });
  }
  sink::SinkConfig sink_config;
  sink_config.name = config.name;
  sink_config.data_directory = DataDir;
  sink_config.options = config.options;
  sink_config.max_message_bytes = limits.max_message_bytes;
  sink_config.max_inflight_bytes = limits.max_inflight_bytes;
  sink_config.checks_server = config.kind->resends_lost != nullptr;
  return std::make_unique<sink::ProcessSink>(ProgramOf(*config.kind), std::move(sink_config));
}

}  // namespace outbox::worker
