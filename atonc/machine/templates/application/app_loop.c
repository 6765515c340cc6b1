/* app_loop.c: runs the networks of app_networks.h in order, written by atonc @version@. Yours to change.
 *
 * Define one of APP_LOOP_BARE_METAL, APP_LOOP_FREERTOS and APP_LOOP_THREADX for the compiler; without any this file is
 * empty. The application has two functions:
 *
 *   int app_fill_inputs(int network, uint32_t turn);   0: there is nothing to do
 *   void app_use_outputs(int network, uint32_t turn);
 *
 * A network that follows another runs behind it, once for every turn for which app_fill_inputs has something to do (one
 * crop of a detected object after the other); where the table says fewer times a second than for the one that it
 * follows, behind so many of its runs only. Every other network has one turn, as often as the table says. Networks work
 * in the same RAM, so the lock is held from filling the inputs to reading the outputs, with all that follows.
 */

#if defined(APP_LOOP_BARE_METAL) || defined(APP_LOOP_FREERTOS) || defined(APP_LOOP_THREADX)

#include "app_networks.h"

int app_fill_inputs(int network, uint32_t turn);
void app_use_outputs(int network, uint32_t turn);

static uint32_t period_ms(int network)
{
  const float rate = app_networks[network].per_second;
  return rate <= 0.0F ? 0U : rate >= 1000.0F ? 1U : (uint32_t)(1000.0F / rate);
}

static int run_turn(int network, uint32_t turn)
{
  if (!app_fill_inputs(network, turn)) {
    return 0;
  }
  app_network_run(network);
  app_use_outputs(network, turn);
  return 1;
}

/* Whether a follower runs behind this run of the network that it follows: behind the first, and then by the rates. */
static int follows_now(int network)
{
  static float owed[APP_NETWORKS]; /* runs of the other, as parts of one of its own, until it is due */
  const float own = app_networks[network].per_second;
  const float other = app_networks[app_networks[network].after].per_second;
  if (own <= 0.0F || own >= other) {
    return own > 0.0F;
  }
  const int due = owed[network] < 0.001F;
  owed[network] += (due ? 1.0F : 0.0F) - own / other;
  return due;
}

/* Those that follow a network, each with all that follows it. */
static void run_followers(int first)
{
  for (int k = 0; k < APP_NETWORKS; k++) {
    if (app_networks[k].after == first && follows_now(k)) {
      for (uint32_t turn = 0U; run_turn(k, turn); turn++) {
        run_followers(k);
      }
    }
  }
}

/* A network and those that follow it; called with the lock. */
static void run_chain(int first)
{
  if (run_turn(first, 0U)) {
    run_followers(first);
  }
}

#endif

#if defined(APP_LOOP_BARE_METAL)

uint32_t app_milliseconds(void); /* a clock of the application, such as HAL_GetTick */

/* Runs what is due; call it again and again. There is one thread, so it needs no lock. */
void app_loop(void)
{
  static uint32_t due[APP_NETWORKS];
  static int started;
  const uint32_t now = app_milliseconds();
  for (int k = 0; k < APP_NETWORKS; k++) {
    if (!started) {
      due[k] = now;
    }
    if (app_networks[k].after < 0 && period_ms(k) != 0U && (int32_t)(now - due[k]) >= 0) {
      due[k] += period_ms(k);
      run_chain(k);
    }
  }
  started = 1;
}

#elif defined(APP_LOOP_FREERTOS)

#include "FreeRTOS.h"
#include "semphr.h"
#include "task.h"

static SemaphoreHandle_t npu;

static void network_task(void *argument)
{
  const int network = (int)(intptr_t)argument;
  TickType_t woken = xTaskGetTickCount();
  for (;;) {
    xSemaphoreTake(npu, portMAX_DELAY);
    run_chain(network);
    xSemaphoreGive(npu);
    vTaskDelayUntil(&woken, pdMS_TO_TICKS(period_ms(network)));
  }
}

/* A task for every network that follows no other; call it once, after app_networks_init. 0: no memory for one. */
int app_start_tasks(uint32_t stack_words, uint32_t priority)
{
  npu = xSemaphoreCreateMutex();
  if (npu == NULL) {
    return 0;
  }
  for (int k = 0; k < APP_NETWORKS; k++) {
    void *number = (void *)(intptr_t)k;
    if (app_networks[k].after < 0 && period_ms(k) != 0U
        && xTaskCreate(network_task, app_networks[k].name, stack_words, number, priority, NULL) != pdPASS) {
      return 0;
    }
  }
  return 1;
}

#elif defined(APP_LOOP_THREADX)

#include "tx_api.h"

static TX_MUTEX npu;
static TX_THREAD threads[APP_NETWORKS];

static void network_thread(ULONG network)
{
  const ULONG ticks = (ULONG)period_ms((int)network) * TX_TIMER_TICKS_PER_SECOND / 1000U;
  ULONG due = tx_time_get();
  for (;;) {
    tx_mutex_get(&npu, TX_WAIT_FOREVER);
    run_chain((int)network);
    tx_mutex_put(&npu);
    due += ticks != 0U ? ticks : 1U;
    const ULONG now = tx_time_get();
    if ((LONG)(due - now) > 0) {
      tx_thread_sleep(due - now);
    } else {
      tx_thread_relinquish();
    }
  }
}

/* A thread for every network that follows no other; `stacks` has room for APP_NETWORKS of them. Call it once, after
 * app_networks_init. */
UINT app_start_threads(void *stacks, ULONG stack_bytes, UINT priority)
{
  UINT status = tx_mutex_create(&npu, "npu", TX_INHERIT);
  for (int k = 0; k < APP_NETWORKS && status == TX_SUCCESS; k++) {
    if (app_networks[k].after < 0 && period_ms(k) != 0U) {
      status = tx_thread_create(&threads[k], (char *)(uintptr_t)app_networks[k].name, network_thread, (ULONG)k,
                                (unsigned char *)stacks + (ULONG)k * stack_bytes, stack_bytes, priority, priority,
                                TX_NO_TIME_SLICE, TX_AUTO_START);
    }
  }
  return status;
}

#endif
