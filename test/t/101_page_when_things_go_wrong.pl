# docs/when-things-go-wrong.md: every SQL block on the page runs as it stands, in the situation that it is written for; and an operator,
# who has what grant_operate() gives and nothing else, may type each statement that is not marked as somebody else's, and none that is.
# No worker takes part (outbox.enabled = off), so that what is parked stays parked while the page is read.
# matrix: R87 R90
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = slurp_file("$ENV{OUTBOX_TOP}/docs/when-things-go-wrong.md");
# (What drops the outbox is a ```postgresql block, and run by 165.)
# Nor what has a reason before it why it is not run: see 251.
my @blocks = ($page =~ s/^<!-- not run: [^>]+? -->\n```sql\n.*?^```//msgr) =~ /^```sql\n(.*?)^```/msg;
cmp_ok(scalar(@blocks), '>=', 30, 'the page has its blocks');

my $node = new_node(conf => "outbox.enabled = off\nwal_level = logical\n");
$node->safe_psql('postgres', q{
	CREATE ROLE oncall;
	CREATE SCHEMA sales;
	CREATE PUBLICATION everything FOR ALL TABLES;
	CREATE SERVER events FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '127.0.0.1:1');
	CREATE USER MAPPING FOR PUBLIC SERVER events OPTIONS ("sasl.username" 'u', "sasl.password" 'old');
	SELECT outbox.create_route('everything', server => 'events', on_failure => 'block');
	INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload)
	VALUES ('018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f', 'order', '42', 'order.paid', '{"amount": "12,99"}');
	SELECT outbox.grant_operate('oncall')});

# The event in trouble: a dead letter of the route, too large.
my $park = q{
	SET client_min_messages = error;
	SET outbox.allow_loss = on;
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, payload, topic, attempts,
		error_class, error_code, error_message, failed_at)
	SELECT r.id, 0, l.created_at, l.id, l.aggregate_type, l.aggregate_id, l.event_type, l.payload, 'outbox.event.order', 1, 'message',
		'MSG_SIZE_TOO_LARGE', 'the record is too large', clock_timestamp()
	FROM outbox.route r, outbox_internal.log l WHERE r.name = 'everything'
	ON CONFLICT (route_id, created_at, id, replay) DO UPDATE SET state = 'dead', due_at = NULL, error_class = 'message',
		error_code = 'MSG_SIZE_TOO_LARGE', failed_at = clock_timestamp();
	RESET outbox.allow_loss;
	RESET client_min_messages};

# As a superuser the situation is put right, or what is the owner's is done; what comes behind that is the operator's.
sub typed
{
	my ($situation, @statements) = @_;
	return $node->psql('postgres', "$situation;\nSET SESSION AUTHORIZATION oncall;\n" . join('', @statements), on_error_stop => 1);
}
# What stands in the text, in backticks, first.
my @inline = grep { !/\.\.\.|outbox\.adopt/ } ($page =~ s/^```.*?^```//msgr) =~ /`(SELECT [^`]+)`/g;
cmp_ok(scalar(@inline), '>=', 12, 'the text has statements');
my ($status, undef, $complaint) = typed($park, map { "$_;\n" } @inline);
is($status, 0, 'an operator may type them') or diag($complaint);

my (%says, $of_others);
foreach my $block (@blocks)
{
	my ($title) = $block =~ /^(.*)$/m;
	my $situation = $park;
	my @typed;
	my $type = sub {
		my ($status, $stdout, $stderr) = typed($situation, splice @typed);
		$situation = '';
		is($status, 0, $title) or diag("$block\n$stderr");
		unlike($stderr, qr/WARNING|ERROR/, 'without complaint');
		push @{ $says{$block} }, $stdout;
	};
	while ($block =~ /\G(.*?;[ \t]*(?:-- ([^\n]*))?\n)/gs)
	{
		my ($statement, $note) = ($1, $2 // '');
		if ($note !~ /^(?:owner|superuser)\b/) { push @typed, $statement; next }
		$type->() if @typed;
		$of_others++;
		like((typed('', $statement))[2], qr/ERROR:  (?:permission denied|must be (?:owner|superuser))/, 'an operator may not, as the page says: ' . $statement =~ s/\s+/ /gr);
		my ($status, $stdout, $stderr) = $node->psql('postgres', "$situation;\n$statement", on_error_stop => 1);
		$situation = '';
		is($status, 0, $title) or diag("$block\n$stderr");
		unlike($stderr, qr/WARNING|ERROR/, 'without complaint');
	}
	$type->() if @typed;
}
cmp_ok($of_others, '>=', 15, 'statements of others are marked');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM outbox.audit WHERE who = 'oncall'}), '>', 15, 'and the audit has who it was');

# Not only without an error: what the page says has happened.
my ($redrive) = grep { /MSG_SIZE_TOO_LARGE', dry_run => false, reason => 'topic takes 4 MB now'/ } @blocks;
is($says{$redrive}[0], "1\n1", 'one dead letter matched, and was retried');
my ($edit) = grep { /amount had a comma/ } @blocks;
is($says{$edit}[0], '1', 'the event was edited');
my ($where) = grep { /FROM outbox.status/ && /places/ } @blocks;
like($says{$where}[0], qr/everything\|dead\|/, 'status() shows it');
is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT action, ' ' ORDER BY action) FROM outbox.audit}),
	'adopt allow_loss alter server alter system alter user mapping alter_route create_route discard drop_route forget grant_operate pause redrive replay reprocess resume retry revoke_operate seek skip', 'each kind of action left its row');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox.pause'), '0', 'what was paused was let go');

# The page leaves out nothing that an operator may call.
my $routines = $node->safe_psql('postgres', q{
	SELECT DISTINCT p.proname FROM outbox_internal.operate_grants() g JOIN pg_proc p ON g = format('EXECUTE ON ROUTINE %s', p.oid::regprocedure)
	WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname <> 'version'});
like($page, qr/outbox\.$_\b/, "the page knows $_()") foreach split /\n/, $routines;
my $views = $node->safe_psql('postgres', q{
	SELECT c.relname FROM pg_class c, aclexplode(c.relacl) x WHERE c.relnamespace = 'outbox'::regnamespace
	AND x.grantee = 'pg_monitor'::regrole AND c.relname <> 'worker'});
like($page, qr/outbox\.$_\b/, "the page knows outbox.$_") foreach split /\n/, $views;
no_server_crashed($node);
done_testing();
