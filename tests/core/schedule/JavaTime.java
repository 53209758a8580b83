import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZonedDateTime;

/** Reads lines of a zone and a wall time, and writes the second since 1970 at which it is, or - for an unknown zone. */
class JavaTime {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        var out = new StringBuilder();
        for (String line; (line = lines.readLine()) != null; ) {
            var words = line.split(" ");
            if (ZoneId.getAvailableZoneIds().contains(words[0])) {
                var moment = ZonedDateTime.ofLocal(LocalDateTime.parse(words[1]), ZoneId.of(words[0]), null);
                out.append(moment.toEpochSecond()).append('\n');
            } else {
                out.append("-\n");
            }
        }
        System.out.print(out);
    }
}
