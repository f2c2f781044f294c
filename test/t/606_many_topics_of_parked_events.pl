# A thousand topics take nothing, and each has parked events that are due: they are passed by at each claim, at a cost that
# goes with the number of rows and not with that of rows times topics.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $topics = 1000;
my $redis = Outbox::Redis->start;
$redis->command(qw(ACL SETUSER narrow on >secret ~good +@all));
my $node = new_node(conf => "shared_preload_libraries = 'outbox,auto_explain'\noutbox.workers = 1\n"
	  . "auto_explain.log_min_duration = 0\nauto_explain.log_verbose = on\nauto_explain.log_nested_statements = on\n");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql("CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
sql(q{CREATE USER MAPPING FOR PUBLIC SERVER redis OPTIONS (username 'narrow', password 'secret')});
sql(q{SELECT outbox.create_route('r', server => 'redis', topic => 'good')});
sql(qq{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, own_topic, topic)
	SELECT r.id, 0, now() + n * interval '1 us', gen_random_uuid(), 'retrying', n, now(), 't', 'k' || n, 'e', 'x', 'away_' || n, 'away_' || n
	FROM outbox.route r, generate_series(1, $topics) n});

# Entries of the relay worker that look for what is due, each with the lines of its plan.
sub looks { return grep { /^\S+ \S+ \S+ \[\d+\] outbox relay LOG:  duration: .*Query Text: SELECT (?:p\.due_at|min\(s\.due_at\))/s } split /^(?=\d{4}-)/m, slurp_file($node->logfile) }
my @looks;
ok(wait_until(sub { (@looks = looks()) >= 40 }, 120), 'the worker looks for what is due, again and again');
is(scalar(grep { /topic (?:= ANY|<> ALL) \(/ } @looks), 0, 'and compares no topic with one of the others after the other');
cmp_ok(scalar(grep { /hashed SubPlan/ } @looks), '>', 20, 'but looks it up');
my @took = sort { $a <=> $b } map { /duration: ([0-9.]+) ms/ } @looks;
note("that took $took[@took / 2] ms in the middle, $took[-1] ms at most");
is(sql('SELECT count(*) FROM outbox_internal.parked'), $topics, 'all wait still');
done_testing();
