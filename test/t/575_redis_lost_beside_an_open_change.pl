# matrix: E-5
# What a Redis has lost, beside an alter_route() that is long past and beside one that was called long before what is lost was
# delivered, and committed after it: by the first nothing is missing, and the second is told. So it is where seek() has put the
# route somewhere else since.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'sleep';

my $node = new_node();
my %redis;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub there { my ($name, $stream) = @_; return by_key([ map { $_->{payload} } @{ $redis{$name}->entries($stream) } ])->{k} // '' }
sub emit { my ($from, $to, @types) = @_; emit_counted($node, $_, ['k'], $from, $to) foreach @types; return ok(wait_idle($node), "$from to $to delivered") }
sub audit { my ($name, $what) = @_; return sql("SELECT $what FROM outbox.audit WHERE route = '$name' AND action IN ('rewind', 'lost writes') ORDER BY at LIMIT 1") }

my @types = qw(past open away gone);
my %takes = (past => '{past,other}', open => '{open,gone}', away => '{away}');
foreach my $name (sort keys %takes)
{
	$redis{$name} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
	redis_route($node, $redis{$name}, $name, aggregate_types => "'$takes{$name}'", topic => q('{aggregate_type}'));
}
emit(1, 5, @types);
my $person = $node->background_psql('postgres', timeout => 600);
$person->query_safe(q{SET client_min_messages = warning; BEGIN; SELECT outbox.alter_route('open', aggregate_types => '{open}')});
sql(q{SELECT outbox.alter_route('past', aggregate_types => '{past}')});
sleep 12;  # no less, or what was on its way then might be meant
emit(6, 10, @types);
$_->command('SAVE') foreach values %redis;
emit(11, 20, @types);
is(there('open', 'gone'), join(' ', 1 .. 20), 'the route is as it was until the change is committed');
$person->query_safe('COMMIT');
$person->quit;
sql(q{CALL outbox.seek('away', 'infinity', dry_run => false, reason => 'a test')});
sql(q{SELECT outbox.alter_route('away', aggregate_types => '{none,other}')});

$_->kill9 foreach values %redis;
$_->restart foreach values %redis;
ok(wait_until(sub { audit($_, 'count(*) OVER ()') ne '' }, 60), "$_: the loss is said") foreach sort keys %redis;
ok(wait_idle($node), 'idle');
is(there('past', 'past'), join(' ', 1 .. 20), 'past: all is there');
is(audit('past', q{detail ?| '{missing_since,missing_before}'}), 'f', 'past: nothing is missing');
is(there('open', 'open') . ' | ' . there('open', 'gone'), join(' ', 1 .. 20) . ' | ' . join(' ', 1 .. 10), 'open: what it takes no more is not there');
my $takes_no_more = qr/what it took before outbox\.alter_route\(\) at \S+ \S+ and takes no more is not sent/;
like(audit('open', 'reason'), $takes_no_more, 'open: that is said');
my $since = audit('open', q{detail ->> 'missing_since'});
sql("SELECT outbox.create_route('gone', 'open', '{gone}', topic => '{aggregate_type}', start => '$since')");
ok(wait_until(sub { my %seen; join(' ', sort { $a <=> $b } grep { !$seen{$_}++ } split / /, there('open', 'gone')) eq join(' ', 1 .. 20) }, 60),
	'open: a new route from there on sends it') || diag(there('open', 'gone'));
like(audit('away', 'reason'), qr/what was delivered before .*, when its lanes began anew, is not sent: .*; $takes_no_more/, 'away: both reasons are said');
no_server_crashed($node);
done_testing();
