# What the TAP tests share: servers that load the checkout's build, events, and waiting for things to be so.
# Brokers are in Outbox::Redis and Outbox::Kafka. scripts/test sets the environment (TEMP_CONFIG makes every
# PostgreSQL::Test::Cluster node load the staged build).
package Outbox::Test;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(dirname);
use List::Util qw(min);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Outbox::Kafka;
use Outbox::Looks;
use Outbox::Redis;

our @EXPORT = qw(new_node kafka_route redis_route wait_for_value wait_idle relay_pids sink_pids child_pids
  rss_kb peak_rss_kb sql_literal stage_with no_server_crashed emit_counted emit_huge by_key wait_until crash_restarts server_is_back upkeep
  value_at_rest backend_seconds index_entries_read make_dead_letters);

# A run that is interrupted ends what it has started: see the END blocks.
foreach my $signal (qw(TERM INT HUP)) { $SIG{$signal} = sub { exit 130 } }

# A started node with the extension in database postgres. %options: conf => extra lines, name => node name,
# extension => 0 leaves the extension out, init => more arguments for initdb.
sub new_node
{
	my (%options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($options{name} // 'main');
	$node->init(extra => $options{init} // []);
	$node->append_conf('postgresql.conf', "max_prepared_transactions = 10\nlog_min_messages = info\n"
		  . "log_statement = none\nlog_line_prefix = '%m [%p] %b %q%a '\n" . ($options{conf} // ''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION outbox') if $options{extension} // 1;
	return $node;
}

# Lines of postgresql.conf for a server that has these scripts of test/upgrade beside those of the build: from a stage of its own
# (links), or none where a server loads only what is installed into it: scripts/lib.sh has installed them there, too.
sub stage_with
{
	my (@scripts) = @_;
	my $conf = slurp_file($ENV{TEMP_CONFIG});
	return '' if $conf !~ /^extension_/m;
	my $stage = PostgreSQL::Test::Utils::tempdir() . '/stage';
	system('cp', '-rs', $ENV{OUTBOX_STAGE}, $stage) == 0 or die 'cp';
	chomp(my $control = `find '$stage' -name outbox.control`);
	system('cp', (map { "$ENV{OUTBOX_TOP}/test/upgrade/$_" } @scripts), dirname($control)) == 0 or die 'cp' if @scripts;
	return $conf =~ s/\Q$ENV{OUTBOX_STAGE}\E/$stage/gr;
}

sub sql_literal
{
	my ($text) = @_;
	$text =~ s/'/''/g;
	return "'$text'";
}

# Creates a foreign server for the broker and a route to it; %route are more named arguments of create_route, as SQL.
sub redis_route
{
	my ($node, $redis, $name, %route) = @_;
	my $options = delete $route{server_options} // '';
	$node->safe_psql('postgres',
		"CREATE SERVER $name FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}'$options)");
	return create_route($node, $name, %route);
}

sub kafka_route
{
	my ($node, $kafka, $name, %route) = @_;
	my $options = delete $route{server_options} // '';
	$node->safe_psql('postgres',
		"CREATE SERVER $name FOREIGN DATA WRAPPER outbox_kafka OPTIONS (\"bootstrap.servers\" '$kafka->{bootstrap}'$options)");
	return create_route($node, $name, %route);
}

sub create_route
{
	my ($node, $name, %route) = @_;
	my $database = delete $route{database} // 'postgres';
	my $arguments = join '', map { ", $_ => $route{$_}" } sort keys %route;
	return $node->safe_psql($database, "SELECT outbox.create_route('$name', server => '$name'$arguments)");
}

# What the query says once it has said the same for so many tenths of a second: figures of workers come when they have told them.
sub value_at_rest
{
	my ($node, $query, $tenths) = @_;
	my $known = -1;
	my $same = 0;
	wait_until(sub {
		my $now = $node->safe_psql('postgres', $query);
		$same = $now == $known ? $same + 1 : 0;
		$known = $now;
		sleep 0.1;
		return $same >= $tenths;
	}, 60) or die 'the figure does not stand still';
	return $known;
}

# Entries of an index of parked events that searches have come by.
sub index_entries_read
{
	my ($node, $index) = @_;
	return value_at_rest($node, "SELECT idx_tup_read FROM pg_stat_all_indexes WHERE indexrelid = 'outbox_internal.$index'::regclass", 5);
}

# So many dead letters, of so many keys, where nothing else is parked.
sub make_dead_letters
{
	my ($node, $events, $keys) = @_;
	$node->safe_psql('postgres', qq(SELECT count(outbox.emit('k', (i % $keys)::text, 'e', '{}'::jsonb, deliver_at => now() + interval '1 hour')) FROM generate_series(1, $events) i));
	ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', $events, 120), "$events events are parked");
	return $node->safe_psql('postgres', q(SET client_min_messages = error; SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET state = 'dead',
		due_at = NULL, attempts = 1, failed_at = now(), error_class = 'message', error_code = 'TOO_LARGE', error_message = 'too large'));
}

# Polls until the query's single value is the wanted one; returns whether it came to that.
sub wait_for_value
{
	my ($node, $query, $wanted, $timeout) = @_;
	my $value = '';
	return 1 if wait_until(sub
	{
		# A psql that a recovering server turns away may be gone before its input is written: that kills the writer.
		my $said = eval { $node->safe_psql('postgres', $query) };
		$value = $said // '';
		return defined $said && $value eq $wanted;
	}, $timeout);
	diag("waited for '$wanted', last saw '$value': $query");
	return 0;
}

# Polls until the condition holds; returns whether it came to that. A look counts for five seconds at most, however long the
# machine stood still in it. Looks are fewer as it takes longer: each costs something.
sub wait_until
{
	my (@arguments) = @_;
	return Outbox::Looks::keep(sub { look_until(@arguments) });
}

sub look_until
{
	my ($condition, $timeout) = @_;
	my $left = $timeout // $PostgreSQL::Test::Utils::timeout_default;
	my $pause = 0.05;
	while ($left > 0)
	{
		my $began = time;
		return 1 if $condition->();
		sleep $pause;
		$pause = min($pause * 1.3, 0.25);
		$left -= min(time - $began, 5);
	}
	return 0;
}

# Two rounds of the keeper that began after now. It looks after the day tables when the configuration is read again; the first
# round that is seen to end may have begun earlier, and the second may serve an earlier call.
sub upkeep
{
	my ($node) = @_;
	foreach (1 .. 3)
	{
		my $before = $node->safe_psql('postgres', 'SELECT clock_timestamp() FROM pg_reload_conf()');
		wait_for_value($node, "SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'outbox keeper' AND state = 'idle' AND state_change > '$before'", 1)
		  or die 'the keeper does not come round';
	}
	return;
}

# How often the postmaster has ended all sessions because a process crashed.
sub crash_restarts { my ($node) = @_; return scalar(() = slurp_file($node->logfile) =~ /terminating any other active server processes/g) }

# After one crash more than there were before it. A client may know of a dead process sooner than the postmaster does, and
# be answered by the server that is about to go down.
sub server_is_back
{
	my ($node, $crashes) = @_;
	return wait_until(sub { crash_restarts($node) > $crashes }) && wait_for_value($node, 'SELECT true', 't');
}

# Emits the texts 'KEY N' for N from..to, in turn under each key, in one transaction.
sub emit_counted
{
	my ($node, $type, $keys, $from, $to) = @_;
	my $array = join ',', map { sql_literal($_) } @$keys;
	$node->safe_psql('postgres', "DO \$\$ DECLARE k text; BEGIN
		FOR n IN $from .. $to LOOP FOREACH k IN ARRAY ARRAY[$array] LOOP
			PERFORM outbox.emit_text('$type', k, 'counted', k || ' ' || n);
		END LOOP; END LOOP; END \$\$");
	return;
}

# Emits one event of so many bytes that do not compress, ' huge' at the end; returns its id.
sub emit_huge
{
	my ($node, $type, $key, $bytes) = @_;
	return $node->safe_psql('postgres', "SELECT outbox.emit_text('$type', '$key', 'huge',
		(SELECT left(string_agg(translate(encode(sha512((random()::text || i)::bytea), 'base64'), E'\\n', ''), ''), $bytes - 5) || ' huge'
		FROM generate_series(1, $bytes / 80 + 1) i))");
}

# Texts of emit_counted in the order of arrival, by key: { KEY => 'N N N' }; what else there is, under 'other'.
sub by_key
{
	my ($payloads) = @_;
	my %keys;
	foreach my $payload (@$payloads)
	{
		if ($payload =~ /^(\S+) (\d+)$/) { push @{ $keys{$1} }, $2 }
		else { push @{ $keys{other} }, $payload =~ / huge$/ ? 'huge' : $payload }
	}
	return { map { $_ => join ' ', @{ $keys{$_} } } keys %keys };
}

# True when everything committed before is delivered (or dead) everywhere.
sub wait_idle
{
	my ($node, $timeout) = @_;
	$timeout //= 60;
	my $idle = $node->safe_psql('postgres', "SELECT outbox.wait_until_idle('$timeout s')");
	diag($node->safe_psql('postgres', 'SELECT * FROM outbox.lag')) if $idle ne 't';
	return $idle eq 't';
}

sub relay_pids
{
	my ($node) = @_;
	return split /\n/,
	  $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox relay' ORDER BY pid");
}

sub child_pids
{
	my ($parent) = @_;
	my @children;
	foreach my $stat (glob '/proc/[0-9]*/stat')
	{
		open my $file, '<', $stat or next;
		my $line = <$file> // '';
		push @children, $1 if $line =~ /^(\d+) \(.*\) \S (\d+) / && $2 == $parent;
	}
	return @children;
}

# Sink processes are children of relay workers.
sub sink_pids
{
	my ($node) = @_;
	return map { child_pids($_) } relay_pids($node);
}

# Resident memory of a process, kB: what it holds now, and the most that it ever held.
sub rss_kb { return status_kb($_[0], 'VmRSS') }
sub peak_rss_kb { return status_kb($_[0], 'VmHWM') }

sub status_kb
{
	my ($pid, $field) = @_;
	open my $file, '<', "/proc/$pid/status" or return 0;
	while (<$file>) { return $1 if /^$field:\s+(\d+)/ }
	return 0;
}

# Seconds of the processor that a session spends in a statement: on a machine that others keep busy the same as on an idle one.
sub backend_seconds
{
	my ($node, $statement) = @_;
	my $spent = q{SELECT 'ticks ' || (f[12]::bigint + f[13]::bigint) FROM regexp_split_to_array(regexp_replace(pg_read_file('/proc/self/stat'), '^.*\) ', ''), ' ') f};
	my @ticks = $node->safe_psql('postgres', "$spent;\n$statement;\n$spent") =~ /^ticks (\d+)$/mg;
	return ($ticks[1] - $ticks[0]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

sub no_server_crashed
{
	my ($node, $name) = @_;
	my $log = slurp_file($node->logfile);
	unlike($log, qr/terminated by signal|TRAP:|PANIC/, $name // 'no server process crashed');
}

1;
