# ALTER EXTENSION outbox UPDATE by another superuser than the one who made the extension: what the update makes is the
# extension's owner's, so nothing hangs on the other one, who may be a plain role again, or be dropped. And where objects belong
# to several roles all the same, doctor() says so, and what to type, instead of failing.
# matrix: G11
use strict;
use warnings;

use Outbox::Catalog qw(catalog);
use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => stage_with('outbox--0.1.sql'));
my $owner = $node->safe_psql('postgres', 'SELECT session_user');
sub sql { my ($database, $query) = @_; return $node->safe_psql($database, $query) }
sub outcome { my ($database, $query) = @_; my ($code, $out, $err) = $node->psql($database, $query); return $err ne '' ? $err : $out }

sql('postgres', 'CREATE ROLE other SUPERUSER');
sql('postgres', "CREATE DATABASE $_") foreach qw(fresh updated given plain);
sql('fresh', 'CREATE EXTENSION outbox');
sql('updated', "CREATE EXTENSION outbox VERSION '0.1'");
# In a transaction, whose role is what it was when the update is over.
is(sql('updated', 'BEGIN; SET LOCAL ROLE other; ALTER EXTENSION outbox UPDATE; SELECT current_user; COMMIT'), 'other', 'another superuser updates');
my %fresh = map { $_ => 1 } catalog($node, 'fresh');
my %updated = map { $_ => 1 } catalog($node, 'updated');
is_deeply([ (map { "- $_" } grep { !$updated{$_} } sort keys %fresh), (map { "+ $_" } grep { !$fresh{$_} } sort keys %updated) ], [], 'updated is as fresh');
my $others = q{SELECT string_agg(pg_describe_object(classid, objid, objsubid), ', ') FROM pg_shdepend
	WHERE refobjid = 'other'::regrole AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())};
is(sql('updated', $others), '', 'nothing of it is his');
is(sql('updated', q{SELECT status FROM outbox.doctor() WHERE "check" = 'owners'}), 'ok', 'doctor() finds one owner');

# An owner who is no superuser any more: wrappers have to stay with one who is.
sql('plain', q{CREATE ROLE demoted SUPERUSER; SET ROLE demoted; CREATE EXTENSION outbox VERSION '0.1'; RESET ROLE; ALTER ROLE demoted NOSUPERUSER});
is(outcome('plain', 'SET ROLE other; ALTER EXTENSION outbox UPDATE'), '', 'an extension of a role that is no superuser is updated');
is(sql('plain', $others) =~ s/foreign-data wrapper \w+(?:, )?//gr, '', 'nothing of it is his, but wrappers');
is(sql('plain', q{SELECT status FROM outbox.doctor() WHERE "check" = 'owners'}), 'ok', 'doctor() finds one owner there');

# As it was before, or somebody gives a view away.
sql('given', q{CREATE EXTENSION outbox; ALTER VIEW outbox.parked_event OWNER TO other; ALTER VIEW outbox_internal.waiting OWNER TO other});
is(sql('given', q{SELECT status FROM outbox.doctor() WHERE "check" = 'owners'}), "warning\nwarning", 'views of a superuser are told of');
sql('postgres', 'ALTER ROLE other NOSUPERUSER');
is(outcome('updated', 'SELECT count(*) FROM outbox.parked_event'), '0', 'the views work when he is none any more');
like(outcome('given', 'TABLE outbox.parked_event'), qr/permission denied/, 'those that are his do not');
is(sql('given', q{SELECT status, hint FROM outbox.doctor() WHERE "check" = 'owners'}),
	"problem|ALTER VIEW outbox.parked_event OWNER TO $owner; ALTER VIEW outbox_internal.waiting OWNER TO $owner;", 'which doctor() says, and what to type');
sql('given', sql('given', q{SELECT hint FROM outbox.doctor() WHERE "check" = 'owners'}));
is(sql('given', q{SELECT status FROM outbox.doctor() WHERE "check" = 'owners'}), 'ok', 'that mends it');
is(outcome('given', 'SELECT count(*) FROM outbox.parked_event'), '0', 'and the views work');
is(outcome('updated', 'DROP OWNED BY other'), '', 'what he has is dropped');
is(sql('updated', 'SELECT count(*) FROM outbox.doctor()') > 5 ? 'works' : 'fails', 'works', 'and nothing of outbox with it');
no_server_crashed($node);
done_testing();
