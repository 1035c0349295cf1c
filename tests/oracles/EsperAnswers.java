import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.common.client.json.minimaljson.Json;
import com.espertech.esper.common.client.json.minimaljson.JsonArray;
import com.espertech.esper.common.client.json.minimaljson.JsonObject;
import com.espertech.esper.common.client.json.minimaljson.JsonValue;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompileException;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.lang.reflect.Array;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * Esper as a witness: answers many questions, each in a runtime of its own.
 *
 * <p>Arguments: a file of questions, the file for the answers, a line each, both JSON; esper.py says what stands in them. Time is
 * what the events say, and passes in small steps.
 */
public final class EsperAnswers {
  public static void main(String[] arguments) throws Exception {
    try (var answers = Files.newBufferedWriter(Path.of(arguments[1]))) {
      for (JsonValue question : Json.parse(Files.readString(Path.of(arguments[0]))).asArray()) {
        answers.write(answer(question.asObject()).toString());
        answers.newLine();
        answers.flush();
      }
    }
  }

  /** What has been compiled for all: the schemas. */
  private static final Map<String, EPCompiled> SHARED = new HashMap<>();

  private static JsonObject answer(JsonObject question) {
    JsonArray rows = new JsonArray();
    try {
      Configuration settings = new Configuration();
      settings.getRuntime().getThreading().setInternalTimerEnabled(false);
      settings.getCompiler().getByteCode().setAllowSubscriber(false);
      EPCompiled schemas = schemas(question.getString("schemas", ""), settings);
      var known = new CompilerArguments(settings);
      known.getPath().add(schemas);
      EPCompiled compiled =
          EPCompilerProvider.getCompiler().compile(question.getString("module", ""), known);
      EPRuntime runtime = EPRuntimeProvider.getRuntime("question", settings);
      try {
        runtime.getEventService().advanceTime(question.getLong("start", 0));
        runtime.getDeploymentService().deploy(schemas);
        for (EPStatement statement :
            runtime.getDeploymentService().deploy(compiled).getStatements()) {
          if (statement.getName().equals("q")) {
            listen(statement, question, rows);
          }
        }
        send(runtime.getEventService(), question);
      } finally {
        runtime.destroy();
      }
      return new JsonObject().add("rows", rows);
    } catch (Exception | LinkageError | OutOfMemoryError error) {
      return new JsonObject().add("error", String.valueOf(error.getMessage()));
    }
  }

  private static EPCompiled schemas(String text, Configuration settings)
      throws EPCompileException {
    if (!SHARED.containsKey(text)) {
      SHARED.put(
          text,
          EPCompilerProvider.getCompiler().compile(text, new CompilerArguments(settings)));
    }
    return SHARED.get(text);
  }

  private static void listen(EPStatement statement, JsonObject question, JsonArray rows) {
    JsonArray columns = question.get("columns").asArray();
    boolean both = question.getBoolean("both", false);
    statement.addListener(
        (added, removed, self, runtime) -> {
          long now = runtime.getEventService().getCurrentTime();
          tell(added, now, columns, both ? Json.TRUE : null, rows);
          tell(both ? removed : null, now, columns, Json.FALSE, rows);
        });
  }

  /** A row each: the time, the columns, and whether it is new, where that is asked (`both`). */
  private static void tell(
      EventBean[] events, long now, JsonArray columns, JsonValue isNew, JsonArray rows) {
    for (EventBean event : events == null ? new EventBean[0] : events) {
      JsonArray row = new JsonArray().add(now);
      columns.forEach(column -> row.add(written(event.get(column.asString()))));
      rows.add(isNew == null ? row : row.add(isNew));
    }
  }

  private static void send(EPEventService service, JsonObject question) {
    for (JsonValue step : question.get("events").asArray()) {
      JsonArray event = step.asArray();
      service.advanceTimeSpan(event.get(1).asLong());
      Object[] values = new Object[event.size() - 2];
      for (int at = 0; at < values.length; at++) {
        values[at] = read(event.get(at + 2));
      }
      service.sendEventObjectArray(values, event.get(0).asString());
    }
    service.advanceTimeSpan(question.getLong("end", 0));
  }

  private static Object read(JsonValue value) {
    return value.isNull() ? null : value.isString() ? value.asString() : (Object) value.asInt();
  }

  private static JsonValue written(Object value) {
    if (value == null) {
      return Json.NULL;
    }
    if (value.getClass().isArray()) { // a list, or an event: its attributes
      JsonArray values = new JsonArray();
      for (int at = 0; at < Array.getLength(value); at++) {
        values.add(written(Array.get(value, at)));
      }
      return values;
    }
    if (value instanceof Long || value instanceof Integer) {
      return Json.value(((Number) value).longValue());
    }
    return value instanceof Number ? Json.value(((Number) value).doubleValue()) : Json.value(value.toString());
  }
}
