# An index that somebody has made on the log or on what is parked, from before outbox refused it or on a server without the library,
# and that may refuse a row: doctor() names it, with the command that drops it. Its own are none of those, nor are narrow ones. One of all
# days, with which no dump could be restored, is refused, and named where it is.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub told { return sql(q(SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'index' ORDER BY detail)) }

redis_route($node, my $redis = Outbox::Redis->start, 'r');
sql(q(SELECT outbox.emit('t', 1, 'e', '0')));
ok(wait_idle($node), 'events flow');
my $fine = 'ok|Each day table of the log has its index.|';
is(told(), $fine, 'its own indexes are not told of');
my $emit = q(SELECT outbox.emit_text('t', 'k', 'wide', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 700) n)) IS NOT NULL);
my $day = sql('SELECT DISTINCT tableoid::regclass FROM outbox_internal.log');
sql("CREATE INDEX narrow ON $day (created_at) INCLUDE (id); CREATE INDEX narrow_too ON outbox_internal.parked (failed_at)");
is(told(), $fine, 'nor are narrow ones');
sub restored
{
	my ($into) = @_;
	my ($dump, $said) = ($node->basedir . '/dump', '');
	sql("CREATE DATABASE $into TEMPLATE template0");
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'dumped');
	IPC::Run::run([ 'pg_restore', '--exit-on-error', '-d', $node->connstr($into), $dump ], '>&', \$said);
	return $said;
}
is(restored('narrow'), '', 'with these a dump is restored');
like(($node->psql('postgres', 'CREATE INDEX log_xid ON outbox_internal.log (xid)'))[2],
	qr/^psql:<stdin>:1: ERROR:  cannot create an index of all days on outbox_internal\.log\n.*\nHINT:  CREATE INDEX on the day tables that need it\./, 'one of all days is refused');
foreach my $table (map { "outbox_internal.$_" } qw(log emit_key outcome progress tick))
{
	my $at = 'USING brin (' . ($table =~ /log/ ? 'created_at' : 'at') . ')';
	isnt(($node->psql('postgres', "CREATE INDEX ON $table $at"))[0], 0, "on $table as well");
	sql("SET outbox.allow_loss = on; CREATE INDEX mine ON $table $at");
	like(told(), qr/^warning\|Index outbox_internal\.mine on \Q$table\E is not one of outbox, and of all its days: a dump [^\n]*\|DROP INDEX outbox_internal\.mine; day tables may have one\.$/, 'and named');
	like(restored('stops'), qr/ATTACH PARTITION/, 'a dump cannot be restored') if $table =~ /log/;
	sql('DROP INDEX outbox_internal.mine');
	is(told(), $fine, 'and no more when it is gone');
}

foreach my $case (
	[ 'outbox_internal.log', 'mine', '(payload)', 1 ],
	[ 'outbox_internal.log', '"Mine"', '(created_at) INCLUDE (payload)', 1 ],
	[ $day, 'mine', '(payload)', 1 ],
	[ $day, 'mine', '((1 / (length(payload) - 22400)))', 1 ],
	[ 'outbox_internal.log_spare', 'mine', '(aggregate_id)' ],
	[ 'outbox_internal.log', 'mine', q[(created_at) WHERE event_type = 'e'] ],
	[ 'outbox_internal.log', 'mine', 'USING hash (aggregate_id)' ],
	[ 'outbox_internal.parked', 'mine', '(payload)' ],
	[ 'outbox_internal.parked', 'mine', '(failed_at) WHERE attempts > 1' ])
{
	my ($table, $name, $definition, $refuses) = @$case;
	my $what = "$name on $table $definition";
	sql("SET outbox.allow_loss = on; CREATE INDEX $name ON $table $definition");
	isnt(($node->psql('postgres', $emit))[0], 0, "$what: a wide event is refused") if $refuses;
	my $lines = told();
	unlike($lines, qr/\n/, "$what: one row");
	like($lines, qr/^warning\|Index outbox_internal\.$name on \Q$table\E /, 'doctor() names it');
	my ($command) = $lines =~ /\|(DROP INDEX [^;]+;)/;
	is($command, "DROP INDEX outbox_internal.$name;", 'and says what to type');
	sql($command // "SET outbox.allow_loss = on; DROP INDEX outbox_internal.$name");
	is(told(), $fine, 'which mends it');
	is(sql("BEGIN; $emit; ROLLBACK"), 't', 'a wide event is taken') if $refuses;
}
ok(wait_idle($node), 'events flow');

no_server_crashed($node);
done_testing();
