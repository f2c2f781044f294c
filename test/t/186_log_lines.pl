# Every line that a background process of outbox writes into the server's log has a CONTEXT of the shape that docs/monitoring.md
# documents, with an event and keys that stand there; and none holds a key, an id or a part of a payload, not even where the
# text of an error of PostgreSQL does. Collected from a run with trouble of many kinds.
# matrix: M4
use strict;
use warnings;

use Cwd;
use File::Basename;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.max_series = 1\nlog_min_messages = info\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', @_) }
sub said { my ($pattern, $what) = @_; return ok(wait_until(sub { slurp_file($node->logfile) =~ $pattern }, 60), $what) }
redis_route($node, $redis, 'redis', topic => q('{event_type}'), aggregate_types => q('{order}'), on_failure => q('skip'), max_attempts => 1);
sql(q(SELECT outbox.create_route('other', server => 'redis', topic => 'other', aggregate_types => '{other}')));
sub emit { my ($type) = @_; return sql("SELECT outbox.emit('order', 'KEYOFAPERSON', '$type', '{\"a\": \"PAYLOADOFAPERSON\"}')") }
my @ids = (emit('one'));
ok(wait_idle($node), 'delivered');
said(qr/event=no_figures_slot setting=outbox\.max_series/, 'no place for figures');

# --- the log as a destination, whose lines are events ---
sql(q(CREATE SERVER log FOREIGN DATA WRAPPER outbox_log; SELECT outbox.create_route('logged', server => 'log', topic => 'logged', aggregate_types => '{logged}')));
sql(q(SELECT outbox.emit('logged', 'anybody', 'one', '{}')));
said(qr/LOG:  outbox event: logged key=anybody .*\n.*CONTEXT:  outbox: process=relay database=\w+ event=event destination=log$/m, 'an event, and whose it is');
sql(q(SELECT outbox.drop_route('logged'); DROP SERVER log));

# --- a topic, and the destination ---
$redis->command('SET', 'bad', 'no stream');
push @ids, emit('bad');
said(qr/event=topic_trouble route=redis topic=bad error_class=topic error_code="WRONGTYPE"/, 'a topic');
$redis->command('DEL', 'bad');
said(qr/event=topic_works route=redis topic=bad seconds=/, 'and back');
$redis->stop;
push @ids, emit('one');
said(qr/event=destination_trouble destination=redis error_class=destination/, 'a destination');
$redis->restart;
said(qr/event=destination_works destination=redis seconds=/, 'and back');

# --- somebody's trigger on a table of outbox tells of a row ---
sql(q(SET outbox.allow_loss = on; CREATE FUNCTION public.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'not %: %', NEW.aggregate_id, convert_from(NEW.payload, 'UTF8') USING DETAIL = NEW.id::text; END $$;
  CREATE TRIGGER tell BEFORE INSERT ON outbox_internal.parked FOR EACH ROW EXECUTE FUNCTION public.tell()));
push @ids, sql(q(SELECT outbox.emit('order', 'KEYOFAPERSON', 'one', '{"a": "PAYLOADOFAPERSON"}', deliver_at => now() + interval '1 day')));
said(qr/event=lane_trouble route=redis lane=0 error_code="P0001"/, 'a lane in trouble with its tables');
sql(q(SET outbox.allow_loss = on; DROP TRIGGER tell ON outbox_internal.parked));
ok(wait_idle($node), 'parked');
said(qr/event=lane_works route=redis lane=0 seconds=/, 'and back');

# --- processes ---
sql(q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'outbox %'));
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE state = 'running'), '4', 60), 'processes are back');
kill KILL => $_ foreach sink_pids($node);
push @ids, emit('one');
ok(wait_idle($node), 'delivered');
sql(q(UPDATE pg_extension SET extversion = '0.1' WHERE extname = 'outbox'));
said(qr/event=other_version extension_version=0\.1 version=0\.2/, 'another version');
sql(q(UPDATE pg_extension SET extversion = '0.2' WHERE extname = 'outbox'));
$node->restart;
ok(wait_idle($node), 'after a restart');

# --- all lines ---
my $docs = slurp_file(dirname(dirname(dirname(Cwd::abs_path(__FILE__)))) . '/docs/monitoring.md');
my ($table) = $docs =~ /^(\| event \|.*?)\n\n/ms;
my %keys;
foreach my $row (split /\n/, $table // '')
{
	my ($events, $keys) = $row =~ /^\| (`[^|]*) \| ([^|]*) \|/ or next;
	$keys{$_} = { map { $_ => 1 } $keys =~ /`(\w+)`/g } foreach $events =~ /`(\w+)`/g;
}
cmp_ok(scalar(keys %keys), '>', 15, 'docs/monitoring.md lists events');
my (@lines, %last);
foreach my $line (split /\n(?!\t)/, slurp_file($node->logfile))
{
	my ($pid, $type, $level, $text) = $line =~ /^\S+ \S+ \S+ \[(\d+)\] (.*?) ?(LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|CONTEXT|STATEMENT|LOCATION|QUERY):  (.*)/s or next;
	if ($level =~ /^(?:DETAIL|HINT|CONTEXT|STATEMENT|LOCATION|QUERY)$/)
	{
		$last{$pid}->{$level} = $text if $last{$pid};
		$last{$pid}->{all} .= $text if $last{$pid};
		next;
	}
	$last{$pid} = { type => $type, level => $level, text => $text, all => $text };
	push @lines, $last{$pid} if $type =~ /^outbox/ || ($level eq 'LOG' && $text =~ /^outbox/);
}
cmp_ok(scalar(@lines), '>', 6, 'there are lines: ' . @lines);
my $word = qr/[a-z0-9_.-]+|"(?:[^"\\]|\\["\\])*"/;
my (@shape, @unknown, %seen);
foreach my $line (@lines)
{
	my ($own) = ($line->{CONTEXT} // '') =~ /([^\n]*)\z/;
	$own =~ s/^\t//;
	if ($own !~ /^outbox: process=(launcher|keeper|relay|maker|session)((?: [a-z_]+=$word)*)$/) { push @shape, "$line->{type} $line->{level}: $line->{text} -- $own"; next }
	my %fields = "$2" =~ / ([a-z_]+)=($word)/g;
	my $event = delete $fields{event};
	delete $fields{database};
	$seen{$event // ''}++;
	push @unknown, "$event: " . join(' ', grep { !$keys{$event}{$_} } keys %fields) if !$event || !$keys{$event} || grep { !$keys{$event}{$_} } keys %fields;
}
is(join("\n", @shape), '', 'each has the documented shape');
is(join("\n", @unknown), '', 'with events and keys that are documented');
note(join ' ', map { "$_=$seen{$_}" } sort keys %seen);
my $secret = join '|', 'KEYOFAPERSON', 'PAYLOADOFAPERSON', map { my $id = $_; $id =~ s/^.*\n//s; quotemeta $id } @ids;
is(join("\n", map { $_->{all} } grep { $_->{all} =~ /$secret/ } @lines), '', 'none holds a key, a payload or an id');
no_server_crashed($node);
done_testing();
