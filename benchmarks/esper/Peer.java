import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import com.espertech.esper.runtime.client.UpdateListener;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Esper in the paper's experiment: one thread, events in memory, time by the events' timestamps.
 *
 * <p>Arguments: a file of EPL (a line a statement, its name before a tab), how many runs, the file of results or "-",
 * the timestamp from which on results are written; then for each stream its name, a letter an attribute (i, d, s), its
 * CSV file. Prints a line for each run: its seconds, for sending the events alone.
 */
public final class Peer {
  private static final class Stream {
    final String name;
    final List<Object[]> events = new ArrayList<>();

    Stream(String name, String kinds, Path file) throws Exception {
      this.name = name;
      for (String line : Files.readAllLines(file)) {
        String[] words = line.split(",");
        Object[] event = new Object[words.length];
        event[0] = Long.valueOf(words[0]);
        for (int at = 1; at < words.length; at++) {
          event[at] = value(kinds.charAt(at - 1), words[at]);
        }
        events.add(event);
      }
    }

    private static Object value(char kind, String word) {
      switch (kind) {
        case 'i':
          return Integer.valueOf(word);
        case 'd':
          return Double.valueOf(word);
        default:
          return word.intern();
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    List<String> lines = Files.readAllLines(Path.of(arguments[0]));
    int runs = Integer.parseInt(arguments[1]);
    long since = Long.parseLong(arguments[3]);
    List<Stream> streams = new ArrayList<>();
    for (int at = 4; at < arguments.length; at += 3) {
      streams.add(new Stream(arguments[at], arguments[at + 1], Path.of(arguments[at + 2])));
    }
    Configuration settings = new Configuration();
    settings.getRuntime().getThreading().setInternalTimerEnabled(false);
    settings.getCompiler().getByteCode().setAllowSubscriber(false);
    EPCompiled compiled =
        EPCompilerProvider.getCompiler().compile(module(lines), new CompilerArguments(settings));
    for (int run = 0; run < runs; run++) {
      EPRuntime runtime = EPRuntimeProvider.getRuntime("run " + run, settings);
      try (BufferedWriter out = arguments[2].equals("-") ? null : Files.newBufferedWriter(Path.of(arguments[2]))) {
        runtime.getEventService().advanceTime(0);
        for (EPStatement statement : runtime.getDeploymentService().deploy(compiled).getStatements()) {
          if (lines.stream().anyMatch(line -> line.startsWith(statement.getName() + "\t"))) {
            statement.addListener(out == null ? dropping() : writing(out, statement, since));
          }
        }
        long began = System.nanoTime();
        send(runtime.getEventService(), streams);
        System.out.println((System.nanoTime() - began) / 1e9);
      }
      runtime.destroy();
    }
  }

  private static String module(List<String> lines) {
    StringBuilder text = new StringBuilder();
    for (String line : lines) {
      String[] parts = line.split("\t", 2);
      text.append(parts[0].isEmpty() ? "" : "@name('" + parts[0] + "') ").append(parts[1]).append(";\n");
    }
    return text.toString();
  }

  /** All events of a moment, in the order of the streams, then those of the next. */
  private static void send(EPEventService service, List<Stream> streams) {
    int events = streams.get(0).events.size();
    for (int at = 0; at < events; at++) {
      for (Stream stream : streams) {
        Object[] event = stream.events.get(at);
        service.advanceTime((Long) event[0]);
        service.sendEventObjectArray(event, stream.name);
      }
    }
  }

  private static long dropped;

  private static UpdateListener dropping() {
    return (added, removed, statement, runtime) -> dropped += added == null ? 0 : added.length;
  }

  private static UpdateListener writing(BufferedWriter out, EPStatement statement, long since) {
    String[] names = statement.getEventType().getPropertyNames();
    return (added, removed, self, runtime) -> {
      for (EventBean event : added) {
        StringBuilder row = new StringBuilder(statement.getName());
        for (String name : names) {
          row.append(',').append(event.get(name));
        }
        try {
          if (((Number) event.get(names[0])).longValue() >= since) {
            out.append(row).append('\n');
          }
        } catch (java.io.IOException error) {
          throw new java.io.UncheckedIOException(error);
        }
      }
    };
  }
}
