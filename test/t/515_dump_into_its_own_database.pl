# A dump that is restored into the database that it was made of, after DROP EXTENSION: what it says of positions is refused, with the
# true reason and what to do, and doctor() does not take what was refused for deleted.
# matrix: C5 C16
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(extension => 0);
$node->safe_psql('postgres', 'CREATE DATABASE shop');
sub sql { return $node->safe_psql('shop', $_[0]) }
sub restore { my $out = ''; IPC::Run::run([ 'pg_restore', '-d', $node->connstr($_[0]), $node->basedir . '/dump' ], '>&', \$out); return $out }

sql(q{CREATE EXTENSION outbox; CREATE SERVER log FOREIGN DATA WRAPPER outbox_log; SELECT outbox.create_route('r', server => 'log')});
sql(q{SELECT outbox.emit_text('a', '1', 'x', 'one')});
ok($node->poll_query_until('shop', q{SELECT outbox.wait_until_idle('10 s')}), 'delivered');
sql(q{SELECT outbox.pause('r', reason => 'maintenance'); SELECT outbox.emit_text('a', '1', 'x', 'two')});
system('pg_dump', '-Fc', '-f', $node->basedir . '/dump', '-d', $node->connstr('shop')) == 0 or die 'pg_dump';
sql('SET outbox.allow_loss = on; DROP EXTENSION outbox CASCADE; DROP SCHEMA IF EXISTS outbox');
my $out = restore('shop');
my %said;
$said{$_}++ foreach $out =~ /^(?:pg_restore: error: .*ERROR: |(?:DETAIL|HINT): ) +(.*)/mg;
is_deeply([ sort keys %said ], [
	'Restore into a new database, and keep applications away until it is restored; ALTER DATABASE ... RENAME TO gives it the name of the old one. Where this is a new one, CREATE DATABASE another: it has another number.',
	'cannot restore into an outbox that is in use',
	'outbox_internal.identity names this very database: it is used already, or the dump was made of it, or of one with the same number on another server that was made of the same files. What a dump says of positions and of what waits is not of now.' ],
	'refused, and why') or diag $out;
my $hint = q(SELECT hint FROM outbox.doctor() WHERE detail = 'Route "r" has no lanes: nothing of it is delivered.');
like(sql($hint), qr/^A dump was restored into the database that it was made of/, 'doctor() knows');

# pg_restore -j may begin with any table: here lanes come before the identity. They are refused for what they say themselves.
sql('SET outbox.allow_loss = on; DROP EXTENSION outbox CASCADE; DROP SCHEMA IF EXISTS outbox');
my $list = $node->basedir . '/list';
my $listed = '';
IPC::Run::run([ 'pg_restore', '-l', $node->basedir . '/dump' ], '>', \$listed) or die 'pg_restore -l';
my @entries = split /\n/, $listed;
my @lane = grep { /TABLE DATA outbox_internal lane / } @entries;
my ($identity) = grep { $entries[$_] =~ /TABLE DATA outbox_internal identity / } 0 .. $#entries;
is(scalar @lane, 1, 'the dump has lanes');
@entries = map { $_ == $identity ? (@lane, $entries[$_]) : $entries[$_] eq $lane[0] ? () : $entries[$_] } 0 .. $#entries;
PostgreSQL::Test::Utils::append_to_file($list, join("\n", @entries) . "\n");
$out = '';
IPC::Run::run([ 'pg_restore', '-L', $list, '-d', $node->connstr('shop'), $node->basedir . '/dump' ], '>&', \$out);
like($out, qr/ERROR:  cannot restore into an outbox that is in use\nDETAIL:  outbox_internal\.lane names this very database/, 'lanes that come first are refused, too') or diag $out;
like($out, qr/ERROR:  cannot restore into an outbox that is in use\nDETAIL:  outbox_internal\.identity names this very database/, 'and what comes behind the identity');
is(sql('SELECT count(*) FROM outbox_internal.lane'), '0', 'no lane has the positions of the original');
like(sql($hint), qr/^A dump was restored into the database that it was made of/, 'doctor() knows');

# As it says.
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
is(restore('fresh'), '', 'into a new database it is restored');
$node->safe_psql('postgres', 'DROP DATABASE shop WITH (FORCE)');
$node->safe_psql('postgres', 'ALTER DATABASE fresh RENAME TO shop');
sql(q{SELECT outbox.adopt(); SELECT outbox.resume('r')});
ok($node->poll_query_until('shop', q{SELECT outbox.wait_until_idle('10 s')}), 'adopted, it delivers');
is(sql($hint), '', 'and its lanes are there');
sql('SET outbox.allow_loss = on; DELETE FROM outbox_internal.lane');
like(sql($hint), qr/^Somebody has deleted them\./, 'who deletes them is told from that');
no_server_crashed($node);
$node->stop;
done_testing();
