# docs/kafka-is-down.md: the first hour of an operator whose Kafka is down is played again, with a real one. The page has the shape
# that it has now (questions, statements, the names of what is answered, the words of the log), and each question has its
# answer on the screen.
# matrix: D1
# ring: long
use strict;
use warnings;

use Outbox::Outage;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $played = Outbox::Outage::play();
my $now = $played->{page};
if ($ENV{OUTBOX_TRANSCRIPT})    # scripts/transcript
{
	open my $file, '>', $ENV{OUTBOX_TRANSCRIPT} or die "$ENV{OUTBOX_TRANSCRIPT}: $!";
	print $file $now;
	close $file;
}
else
{
	my ($shape, $page) = map { Outbox::Outage::shape($_) } $now, slurp_file("$ENV{OUTBOX_TOP}/docs/kafka-is-down.md");
	is(join("\n", @$shape), join("\n", @$page), 'the page has the shape that it has now: else run scripts/transcript');
}
# The answer under a question, as it is now.
sub under { my ($question) = @_; return $now =~ /^## \Q$question\E.*?\n(.*?)(?=^## |\z)/ms ? $1 : '' }
like(under('Something is wrong'), qr/WARNING:  outbox: destination "events" is in trouble: /, 'what: the log names the destination');
like(under('Something is wrong'), qr/hint +\| .*tried again by itself/, 'and doctor() says what to do');
like(under('Since when'), qr/^since +\| \d{4}-.*^next_try.*^error_class +\| destination/ms, 'since when, and why');
like(under('Since when'), qr/^ok +\| f$/m, 'tried by hand: it does not answer');
like(under('Which routes'), qr/^ orders .*\| +2500 \|.*destination$/m, 'which routes, how much');
like(under('Which routes'), qr/^ cache .*\| +0 \|/m, 'which not');
like(under('Is anything lost'), qr/^ orders \| pending .*^ +0$/ms, 'lost: nothing');
like(under('Does the shop'), qr/^ t$/m, 'the shop sells');
like(under('How long can it last'), qr/^held_by +\| route "orders" \(2501 events since .*^status +\| ok/ms, 'how long: what keeps the days, how much room there is');
like(under('What do I do'), qr/^ events \| paused \| postgres +\| kafka gets a new disk/m, 'what to do: who has stopped it, and why');
like(under('It is back'), qr/^ orders +\| +\d+ \| +\d+ \| +[\d.]+ \| \d\d:/m, 'how long it takes');
like(under('Is it over'), qr/^ orders +\| +\d+ \| idle +\| +0 \| +\| +0 \|/m, 'over: all is delivered');
like(under('Is it over'), qr/LOG:  outbox: destination "events" works again after [\d.]+ s/, 'and the log says so');
like(under('Is it over'), qr/doctor_ok *\n-+\n t\n/, 'so does doctor()');
cmp_ok($played->{there}, '>=', $played->{emitted}, 'all of it is in Kafka');
like(under('Who did what'), qr/pause +\| kafka gets a new disk.*^ postgres \| resume/ms, 'and who did what is written down');
my $lines = () = $played->{log} =~ /WARNING:  outbox: destination "events"/g;
ok($lines >= 1 && $lines <= 2, "one line in the log for the whole outage, two where it took minutes and the error became another: $lines");
done_testing();
