# A dump is restored into a new database that has the number of the one that it was made of, as on another server made of the same files
# (here the number is given). That is refused as into the original itself, and what the error and doctor() say to do leads on.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0);
my $db = 'shop';
sub sql { return $node->safe_psql($db, $_[0]) }
sub restore { my $out = ''; IPC::Run::run([ 'pg_restore', '-d', $node->connstr($db), $node->basedir . '/dump' ], '>&', \$out); return $out }

$node->safe_psql('postgres', 'CREATE DATABASE shop');
my $number = $node->safe_psql('postgres', q(SELECT oid FROM pg_database WHERE datname = 'shop'));
sql(q{CREATE EXTENSION outbox; CREATE SERVER log FOREIGN DATA WRAPPER outbox_log; SELECT outbox.create_route('r', server => 'log')});
sql(q{SELECT outbox.emit_text('a', '1', 'x', 'one')});
ok($node->poll_query_until('shop', q{SELECT outbox.wait_until_idle('10 s')}), 'delivered');
sql(q{SELECT outbox.pause('r', reason => 'maintenance'); SELECT outbox.emit_text('a', '1', 'x', 'two')});
system('pg_dump', '-Fc', '-f', $node->basedir . '/dump', '-d', $node->connstr('shop')) == 0 or die 'pg_dump';
$node->safe_psql('postgres', 'DROP DATABASE shop WITH (FORCE)');

$db = 'twin';
$node->safe_psql('postgres', "CREATE DATABASE twin OID = $number");
my $out = restore();
my ($error, $detail, $hint) = $out =~ /ERROR: +(.*)\nDETAIL: +(.*)\nHINT: +(.*)/;
is($error, 'cannot restore into an outbox that is in use', 'refused') or diag $out;
like($detail, qr/or of one with the same number on another server that was made of the same files\. /, 'with the reason');
like($hint, qr/Where this is a new one, CREATE DATABASE another: it has another number\.$/, 'and what to do');
like(sql(q(SELECT hint FROM outbox.doctor() WHERE detail = 'Route "r" has no lanes: nothing of it is delivered.')),
	qr/or into one with the same number on another server that was made of the same files, where its lanes are refused: restore it into a new one\./, 'doctor() knows');

# As it says.
$db = 'another';
$node->safe_psql('postgres', 'CREATE DATABASE another');
is(restore(), '', 'into another one it is restored');
sql(q{SELECT outbox.adopt(); SELECT outbox.resume('r')});
ok($node->poll_query_until('another', q{SELECT outbox.wait_until_idle('10 s')}), 'adopted, it delivers');
is(sql(q{SELECT string_agg(s.state, ' ') FROM outbox_internal.log l, outbox.status(l.id) s}), 'delivered delivered', 'all is delivered');
no_server_crashed($node);
$node->stop;
done_testing();
